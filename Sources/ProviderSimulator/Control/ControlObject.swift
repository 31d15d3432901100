import HTTP
import NIOCore

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
