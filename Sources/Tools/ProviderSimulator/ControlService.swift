import Foundation
import HTTP
import NIOCore

/// The control calls under `/_control`.
struct ControlService: Sendable {
  let simulation: SimulatedProviders

  func respond(to request: Request) -> Action {
    .later {
      do throws(ControlError) {
        return try await answer(request)
      } catch {
        return .json(error.status, ["error": .string(error.message)])
      }
    }
  }

  private func answer(_ request: Request) async throws(ControlError) -> Reply {
    let parts = request.pathOnly.split(separator: "/").dropFirst()
    switch (request.method, parts.first, parts.count) {
    case ("DELETE", nil, _):
      simulation.reset()
      return .json(200, ["status": "reset"])
    case ("GET", "deliveries", 1): return try await deliveries(request.query)
    case ("GET", "counts", 1): return .json(200, .object(JSON.Object(encoding: simulation.counts)))
    case ("GET", "faults", 1): return .json(200, simulation.faults.json)
    case ("PUT", "faults", 1):
      let faults = try Faults(request.body)
      await simulation.setFaults(faults)
      return .json(200, faults.json)
    case ("GET", "topics", 1): return .json(200, topics)
    case ("PUT", "topics", 1):
      let body = try JSON.Object(control: request.body)
      try body.check(["topics"], [:])
      guard body["topics"] != nil else { throw ControlError(message: "topics is missing") }
      let topics: [String: Set<String>] = try body.decode()
      simulation.topics = topics["topics"] ?? []
      return .json(200, self.topics)
    case ("PUT", "tokens", 2):
      simulation.setToken(try token(parts), try TokenRule(request.body))
      return .json(200, ["status": "set"])
    case ("DELETE", "tokens", 2):
      simulation.setToken(try token(parts), nil)
      return .json(200, ["status": "removed"])
    default:
      throw ControlError(status: 404, message: "no such control call: \(request.method) \(request.pathOnly)")
    }
  }

  private var topics: JSON { ["topics": .array(simulation.topics.sorted().map(JSON.string))] }

  private func token(_ parts: ArraySlice<Substring>) throws(ControlError) -> String {
    guard let token = parts.last?.removingPercentEncoding else {
      throw ControlError(message: "the token in the path is not percent-encoded UTF-8")
    }
    return token
  }

  private func deliveries(_ query: [String: String]) async throws(ControlError) -> Reply {
    let wanted = try DeliveryQuery(query, allowed: ["since", "wait", "all", "limit"])
    let all = query["all"] == "true"
    await simulation.log.wait(until: { (all ? $0.last : $0.lastAccepted) > wanted.since }, wanted.wait)
    let (next, deliveries) = simulation.log.entries(
      after: wanted.since, refused: all, limit: wanted.limit)
    return deliveries.reply(next: next, as: "deliveries")
  }
}

/// Which deliveries a call asks for.
struct DeliveryQuery {
  let since: Int
  let wait: Duration
  let limit: Int

  init(_ query: [String: String], allowed: [String]) throws(ControlError) {
    func number(_ name: String, _ fallback: Double) throws(ControlError) -> Double {
      guard let text = query[name] else { return fallback }
      guard let value = Double(text), value >= 0, value < 1e15 else {
        throw ControlError(message: "\(name) must be a number from 0 on")
      }
      return value
    }
    for name in query.keys where !allowed.contains(name) {
      throw ControlError(
        message: "\(name) is not a parameter; known are \(allowed.joined(separator: ", "))")
    }
    since = Int(try number("since", 0))
    wait = .seconds(min(try number("wait", 0), 300))
    limit = Int(try number("limit", 100_000))
  }
}

/// The error of a wrong control call.
struct ControlError: Error {
  var status = 400
  var message: String
}

extension JSON.Object {
  /// The object of a control call.
  init(control body: ByteBuffer) throws(ControlError) {
    guard case .object(let object)? = try? JSON.parse(body) else {
      throw ControlError(message: "the body is not the JSON object that this call expects")
    }
    self = object
  }

  /// A value that is encoded as an object.
  init(encoding value: some Encodable) {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    guard let data = try? encoder.encode(value), case .object(let object)? = try? JSON.parse([UInt8](data))
    else { preconditionFailure("\(value) is no object") }
    self = object
  }

  /// Names a member that is unknown, or a whole number out of its range, which is from 0 on for those not in `ranges`.
  func check(_ known: [String], _ ranges: [String: ClosedRange<Int>], at prefix: String = "")
    throws(ControlError)
  {
    let unknown = members.map(\.name.text).filter { !known.contains($0) }.sorted()
    guard unknown.isEmpty else {
      throw ControlError(
        message: "unknown: \(unknown.map { prefix + $0 }.joined(separator: ", ")); known are "
          + known.sorted().joined(separator: ", "))
    }
    for member in members {
      let range = ranges[member.name.text] ?? 0...Int.max
      guard case .integer(let value) = member.value, !range.contains(Int(value)) else { continue }
      let end = range.upperBound == .max ? "on" : "to \(range.upperBound)"
      throw ControlError(
        message: "\(prefix)\(member.name) must be a whole number from \(range.lowerBound) \(end)")
    }
  }

  /// Sets members of a control call. A null member counts as absent; `retry_after` may be a number.
  mutating func add(_ members: [Member]) {
    for member in members where member.value != .null {
      let name = member.name.text
      let isSeconds = name == "retry_after" && member.value.integer != nil
      self[name] = isSeconds ? .string(member.value.text) : member.value
    }
  }

  /// The object as a type; a member that does not fit is named.
  func decode<Value: Decodable>() throws(ControlError) -> Value {
    func path(_ context: DecodingError.Context) -> String {
      context.codingPath.map(\.stringValue).joined(separator: ".")
    }
    do {
      return try JSONDecoder().decode(Value.self, from: Data(JSON.object(self).bytes))
    } catch DecodingError.typeMismatch(let type, let context) {
      let names = ["Bool": "true or false", "Int": "a whole number", "String": "a string"]
      throw ControlError(message: "\(path(context)) must be \(names["\(type)"] ?? "an array of strings")")
    } catch DecodingError.dataCorrupted(let context) {
      throw ControlError(message: "\(path(context)) has no such value")
    } catch {
      throw ControlError(message: "\(error)")
    }
  }
}
