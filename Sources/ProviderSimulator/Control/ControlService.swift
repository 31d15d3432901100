import Foundation
import NIOCore
import NIOHTTP1

/// The control interface (`spec/interface.md` section 8).
struct ControlService: Sendable {
  /// How many deliveries one answer holds at most.
  private static let page = 10_000

  let plan: FaultPlan
  let ledger: Ledger

  func answer(_ request: FCMPortRequest) async -> Answer {
    let path = String(request.path.dropFirst("/_control".count))
    do {
      switch (request.head.method, path) {
      case (.GET, "/deliveries"): return try await deliveries(request)
      case (.GET, "/counts"): return try Self.encoded(ledger.counts)
      case (.GET, "/faults"): return try Self.encoded(plan.faults)
      case (.PUT, "/faults"):
        plan.faults = try JSONDecoder().decode(SimulatorFaults.self, from: request.body)
        return .json(200, ["ok": true])
      case (.PUT, _) where path.hasPrefix("/tokens/"):
        guard let token = path.dropFirst("/tokens/".count).removingPercentEncoding, !token.isEmpty else { break }
        plan.set(try JSONDecoder().decode(TokenRule.self, from: request.body), for: token)
        return .json(200, ["ok": true])
      case (.DELETE, ""), (.DELETE, "/"):
        plan.reset()
        ledger.reset()
        return .json(200, ["ok": true])
      default: break
      }
    } catch DecodingError.dataCorrupted(let context) {
      return .json(400, ["error": context.debugDescription])
    } catch {
      return .json(400, ["error": "not the JSON that is wanted here"])
    }
    return .json(404, ["error": "no such path or method"])
  }

  private func deliveries(_ request: FCMPortRequest) async throws -> Answer {
    let query = URLComponents(string: request.head.uri)?.queryItems ?? []
    let since = query.first { $0.name == "since" }?.value.flatMap(Int.init) ?? 0
    if let wait = query.first(where: { $0.name == "wait" })?.value.flatMap(Double.init), wait > 0, since < .max {
      _ = await ledger.wait(for: since + 1, timeout: .seconds(min(wait, 300)))
    }
    let (deliveries, next) = ledger.deliveries(since: since, limit: Self.page)
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    var body = ByteBuffer(string: "{\"next\":\(next),\"deliveries\":[")
    for (index, delivery) in deliveries.enumerated() {
      if index > 0 { body.writeString(",") }
      body.writeBytes(try delivery.json(encoder))
    }
    body.writeString("]}")
    return Answer(status: 200, headers: [("content-type", "application/json")], body: body)
  }

  private static func encoded(_ value: some Encodable) throws -> Answer {
    Answer(
      status: 200, headers: [("content-type", "application/json")],
      body: ByteBuffer(bytes: try JSONEncoder().encode(value)))
  }
}
