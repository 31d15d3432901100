package import Hummingbird

/// A value in a received JSON document, with the path that errors name. Reading it as a type throws the 400
/// for the caller.
package struct Field: Sendable {
  package let value: JSON?
  /// Where it stands; of a member with neither members nor elements, where its object does, which all its members share.
  private let location: Location
  /// The name of such a member.
  private var leaf: String?

  /// A path, which is formatted only when an error needs it.
  fileprivate indirect enum Location: Sendable {
    case root(String)
    case member(String, of: Location)
    case element(Int, of: Location)

    var path: String {
      switch self {
      case .root(let name): name
      case .member(let name, let location): "\(location.path)[\"\(name)\"]"
      case .element(let index, let location): "\(location.path)[\(index)]"
      }
    }
  }

  /// The member's name; for a field that is not a member, its path.
  package var name: String {
    if let leaf { return leaf }
    return if case .member(let name, _) = location { name } else { path }
  }

  private init(_ value: JSON?, at location: Location, leaf: String? = nil) {
    self.value = value
    self.location = location
    self.leaf = leaf
  }

  package init(_ value: JSON?, path: String) { self.init(value, at: .root(path)) }

  /// `request["push_requests"][0]["token_id"]`
  package var path: String { place.path }

  private var place: Location { leaf.map { .member($0, of: location) } ?? location }

  /// Parses the body of a request as JSON, whatever its content type; it must be an object.
  ///
  /// - Parameters:
  ///   - depth: values nested deeper become `null` instead of an error; nil for the error.
  ///   - isExplaining: whether an error also says what is wrong with the document and where.
  package static func body(
    of request: Request, limit: Int, cutBelow depth: Int? = nil, isExplaining: Bool = false
  ) async throws -> Field {
    try await body(of: request, limit: limit, cutBelow: depth, isExplaining: isExplaining) { $0 }
  }

  /// Parses the body and passes it to `read` at once, so that the document, which takes several times its bytes, is not
  /// kept.
  package static func body<Value: Sendable>(
    of request: Request, limit: Int, cutBelow depth: Int? = nil, isExplaining: Bool = false,
    read: @escaping @Sendable (Field) throws -> Value
  ) async throws -> Value {
    let buffer = try await request.wholeBody(upTo: limit)
    return try await LongRead.of(buffer.readableBytes) {
      do {
        let body = Field(try JSON.parse(buffer, cutBelow: depth), path: "request")
        _ = try body.members()
        return try read(body)
      } catch let error as JSON.ParseError {
        // Invalid UTF-8 takes precedence wherever it is, as with a parser that decodes the whole body first.
        let isText = String(validating: buffer.readableBytesView, as: UTF8.self) != nil
        let problem = isText ? "Malformed JSON" : "Malformed payload"
        guard isExplaining else { throw APIError(problem) }
        throw APIError(
          "\(problem): \((isText ? error : .encoding).explanation(in: buffer.readableBytesView))")
      }
    }
  }

  /// The member of an object; a missing field if this is no object.
  package subscript(name: String) -> Field {
    let value = value?[name]
    return switch value {
    case .object, .array: Field(value, at: .member(name, of: place))
    default: Field(value, at: place, leaf: name)
    }
  }

  /// The field, or nil if it is absent or null.
  package var present: Field? {
    value == nil || value == .null ? nil : self
  }

  /// A string, which must be storable (`String.isStorable`).
  package func string() throws(APIError) -> String {
    guard case .string(let text) = try existing() else { throw error("is not a string") }
    guard text.isStorable else { throw error("has invalid format") }
    return text
  }

  /// A string of at most `maximum` UTF-8 bytes.
  package func string(maximum: Int) throws(APIError) -> String {
    let text = try string()
    guard text.utf8.count <= maximum else { throw error("is too long (limit: \(maximum) bytes)") }
    return text
  }

  package func integer() throws(APIError) -> Int64 {
    guard case .integer(let value) = try existing() else { throw error("is not an integer") }
    return value
  }

  /// An integer or a fraction.
  package func number() throws(APIError) -> Double {
    switch try existing() {
    case .integer(let value): return Double(value)
    case .number(let text): if let value = Double(text), value.isFinite { return value }
    default: break
    }
    throw error("is not a number")
  }

  package func bool() throws(APIError) -> Bool {
    guard case .bool(let value) = try existing() else { throw error("is not a boolean") }
    return value
  }

  package func elements() throws(APIError) -> Elements {
    guard case .array(let elements) = try existing() else { throw error("is not a list") }
    return Elements(values: elements, location: place)
  }

  /// The elements of an array. Each field is created on access, since there may be many.
  package struct Elements: RandomAccessCollection, Sendable {
    fileprivate let values: [JSON]
    fileprivate let location: Location

    package var startIndex: Int { 0 }
    package var endIndex: Int { values.count }
    package subscript(index: Int) -> Field { Field(values[index], at: .element(index, of: location)) }
  }

  package func members() throws(APIError) -> JSON.Object {
    guard case .object(let object) = try existing() else { throw error("is not a dict") }
    return object
  }

  /// Throws if the object has members other than these.
  package func forbidMembers(except allowed: Set<Name>) throws(APIError) {
    for member in try members().members where !allowed.contains(member.name) {
      throw APIError("Argument \"\(member.name)\" at \(self[member.name.text].path) is unexpected")
    }
  }

  package func existing() throws(APIError) -> JSON {
    guard let value else { throw error("field is missing") }
    return value
  }

  /// A 400 whose message is the field's path and this text.
  package func error(_ text: String) -> APIError {
    APIError("\(path) \(text)")
  }
}
