import Foundation
import HTTP
import NIOCore

/// The control calls under `/_control`.
struct ControlService: Sendable {
  let simulation: Simulation
  /// Closes connections where new faults ask for it.
  let apply: @Sendable (Faults) async -> Void

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
      await apply(Faults())
      return .json(200, ["status": "reset"])
    case ("GET", "deliveries", 1): return try await deliveries(request.query)
    case ("GET", "counts", 1): return .json(200, simulation.counts.json)
    case ("GET", "faults", 1): return .json(200, simulation.faults.json)
    case ("PUT", "faults", 1):
      let faults = try Faults(request.body)
      simulation.faults = faults
      await apply(faults)
      return .json(200, faults.json)
    case ("GET", "topics", 1): return .json(200, topics)
    case ("PUT", "topics", 1):
      guard let topics = try ControlObject(request.body, allowed: ["topics"]).texts("topics") else {
        throw ControlError(message: "topics is missing")
      }
      simulation.topics = Set(topics)
      return .json(200, self.topics)
    case ("PUT", "tokens", 2):
      simulation.setRule(try TokenRule(request.body), for: try token(parts))
      return .json(200, ["status": "set"])
    case ("DELETE", "tokens", 2):
      simulation.setRule(nil, for: try token(parts))
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
    func number(_ name: String, _ fallback: Double) throws(ControlError) -> Double {
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
      await simulation.log.wait(
        until: { (all ? $0.last : $0.lastAccepted) > since }, timeout: .seconds(wait))
    }
    let (next, deliveries) = simulation.log.entries(after: since, refused: all, limit: limit)
    return deliveries.reply(next: next, as: "deliveries")
  }
}

/// A control call that cannot be done.
struct ControlError: Error {
  var status = 400
  var message: String
}

/// The object of a control call. An unknown member, or a value of the wrong type, is an error that names it.
struct ControlObject {
  private let object: JSON.Object
  private let prefix: String

  init(_ body: ByteBuffer, allowed: [String]) throws(ControlError) {
    let json = try? JSON.parse(body)
    guard case .object(let object) = json else {
      throw ControlError(message: "the body is not the JSON object that this call wants")
    }
    try self.init(object, at: "", allowed: allowed)
  }

  private init(_ object: JSON.Object, at prefix: String, allowed: [String]) throws(ControlError) {
    self.object = object
    self.prefix = prefix
    let unknown = object.members.map(\.name.text).filter { !allowed.contains($0) }.sorted()
    guard unknown.isEmpty else {
      throw ControlError(
        message: "unknown: \(unknown.map(path).joined(separator: ", ")); known are "
          + allowed.sorted().joined(separator: ", "))
    }
  }

  /// How an error names a member.
  func path(_ name: String) -> String { prefix + name }

  func error(_ name: String, _ problem: String) -> ControlError {
    ControlError(message: "\(path(name)) \(problem)")
  }

  func isNull(_ name: String) -> Bool { object[name] == .null }

  func flag(_ name: String) throws(ControlError) -> Bool? {
    switch object[name] {
    case nil, .null: nil
    case .bool(let value): value
    default: throw error(name, "must be true or false")
    }
  }

  func text(_ name: String) throws(ControlError) -> String? {
    switch object[name] {
    case nil, .null: nil
    case .string(let value): value
    default: throw error(name, "must be a string")
    }
  }

  func texts(_ name: String) throws(ControlError) -> [String]? {
    guard let value = object[name], value != .null else { return nil }
    guard case .array(let elements) = value else { throw error(name, "must be an array of strings") }
    var texts: [String] = []
    for element in elements {
      guard case .string(let text) = element else { throw error(name, "must be an array of strings") }
      texts.append(text)
    }
    return texts
  }

  func number(_ name: String, _ range: ClosedRange<Int>) throws(ControlError) -> Int? {
    switch object[name] {
    case nil, .null: return nil
    case .integer(let value) where range.contains(Int(value)): return Int(value)
    default:
      let end = range.upperBound == .max ? "on" : "to \(range.upperBound)"
      throw error(name, "must be a whole number from \(range.lowerBound) \(end)")
    }
  }

  /// Seconds or an HTTP-date (RFC 9110 10.2.3).
  func retryAfter() throws(ControlError) -> String? {
    switch object["retry_after"] {
    case nil, .null: nil
    case .integer(let value): String(value)
    case .string(let value): value
    default: throw error("retry_after", "must be seconds or an HTTP-date")
    }
  }

  func nested(_ name: String, allowed: [String]) throws(ControlError) -> ControlObject? {
    guard let value = object[name] else { return nil }
    guard case .object(let object) = value else { throw error(name, "must be an object") }
    return try ControlObject(object, at: path(name) + ".", allowed: allowed)
  }
}
