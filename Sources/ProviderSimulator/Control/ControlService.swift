import Foundation
import NIOCore

/// The control calls under `/_control`.
struct ControlService: Sendable {
  let simulation: Simulation
  /// What a change of the faults or a reset entails outside: connections to close, tokens to forget.
  let apply: @Sendable (Faults) async -> Void

  func respond(to request: Request) -> Action {
    .later {
      do {
        return try await answer(request)
      } catch let error as ControlError {
        return .json(error.status, #"{"error":\#(JSONText.string(error.message))}"#)
      } catch {
        return .json(400, #"{"error":"the body is not the JSON object that this call wants"}"#)
      }
    }
  }

  private func answer(_ request: Request) async throws -> Reply {
    let parts = request.pathOnly.split(separator: "/").dropFirst()
    let query = Form.decode(String(request.path.drop { $0 != "?" }.dropFirst()))
    switch (request.method, parts.first) {
    case ("DELETE", nil):
      simulation.reset()
      await apply(Faults())
      return .json(200, #"{"status":"reset"}"#)
    case ("GET", "deliveries") where parts.count == 1:
      return try await deliveries(query)
    case ("GET", "counts") where parts.count == 1:
      return .json(200, String(decoding: try JSONEncoder().encode(simulation.counts), as: UTF8.self))
    case ("GET", "faults") where parts.count == 1:
      return try show(simulation.faults)
    case ("PUT", "faults") where parts.count == 1:
      let faults = try ControlDecoding.faults(request.body)
      simulation.faults = faults
      await apply(faults)
      return try show(faults)
    case ("GET", "topics") where parts.count == 1:
      return try show(simulation.topics)
    case ("PUT", "topics") where parts.count == 1:
      simulation.topics = try ControlDecoding.topics(request.body)
      return try show(simulation.topics)
    case ("PUT", "tokens") where parts.count == 2:
      simulation.setRule(try ControlDecoding.rule(request.body), for: try token(parts))
      return .json(200, #"{"status":"set"}"#)
    case ("DELETE", "tokens") where parts.count == 2:
      simulation.setRule(nil, for: try token(parts))
      return .json(200, #"{"status":"removed"}"#)
    default:
      throw ControlError(status: 404, message: "no such control call: \(request.method) \(request.pathOnly)")
    }
  }

  private func token(_ parts: ArraySlice<Substring>) throws -> String {
    guard let token = parts.last?.removingPercentEncoding else {
      throw ControlError(message: "the token in the path is not percent-encoded UTF-8")
    }
    return token
  }

  private func show(_ faults: Faults) throws -> Reply {
    .json(200, String(decoding: try ControlDecoding.encode(faults), as: UTF8.self))
  }

  private func show(_ topics: Set<String>) throws -> Reply {
    .json(200, String(decoding: try JSONEncoder().encode(["topics": topics.sorted()]), as: UTF8.self))
  }

  private func deliveries(_ query: [String: String]) async throws -> Reply {
    func number(_ name: String, _ fallback: Double) throws -> Double {
      guard let text = query[name] else { return fallback }
      guard let value = Double(text), value >= 0, value < 1e15 else {
        throw ControlError(message: "\(name) must be a number from 0 on")
      }
      return value
    }
    for name in query.keys where !["since", "wait", "all", "limit"].contains(name) {
      throw ControlError(message: "\(name) is not a parameter: since, wait, all, limit are")
    }
    let since = Int(try number("since", 0))
    let wait = min(try number("wait", 0), 300)
    let limit = Int(try number("limit", 100_000))
    let all = query["all"] == "true"
    if wait > 0 {
      await simulation.log.wait(until: { ($0.lastShown(all: all)) > since }, timeout: .seconds(wait))
    }
    let (next, deliveries) = simulation.log.entries(after: since, refused: all, limit: limit)
    var body = ByteBuffer()
    body.writeString(#"{"next":\#(next),"deliveries":["#)
    for (index, delivery) in deliveries.enumerated() {
      if index > 0 { body.writeString(",") }
      delivery.write(to: &body)
    }
    body.writeString("]}")
    var reply = Reply.json(200, "")
    reply.body = body
    return reply
  }
}

extension DeliveryLog.Contents {
  fileprivate func lastShown(all: Bool) -> Int { all ? last : lastAccepted }
}

/// A control call that cannot be done.
struct ControlError: Error {
  var status = 400
  var message: String
}
