import HTTPTypes
package import Hummingbird

/// The parameters of a request: first those of its form, then those of its query string. Reading a parameter declares it;
/// undeclared ones are reported.
package struct Parameters: Sendable {
  private let fields: [Form.Field]
  /// An array, which is faster than a set for so few.
  private var declared: [Name] = []

  /// For callers without a request.
  package init(_ fields: [(name: String, value: String)]) {
    self.fields = fields.map { Form.Field(name: Name($0), value: $1) }
  }

  /// - Throws: 400 if a value other than that of `lookedUp` is not storable (``Swift/String/isStorable``).
  private init(checking fields: [Form.Field], lookedUp: Name? = nil) throws(APIError) {
    var fields = fields
    for index in fields.indices where !fields[index].value.isStorable {
      guard fields[index].name == lookedUp else { throw APIError("\(fields[index].name) has invalid format") }
      fields[index] = Form.Field(name: fields[index].name, value: "")
    }
    self.fields = fields
  }

  /// Reads the query string and, if the body is a form, its fields.
  ///
  /// - Parameter lookedUp: a parameter that is only used for a lookup, and so reads as empty instead of
  ///   failing if it is not storable.
  package static func read(from request: Request, limit: Int, lookedUp: Name? = nil) async throws
    -> Parameters
  {
    let body = try await request.wholeBody(upTo: limit)
    let type = request.headers.value(.contentType) ?? "application/x-www-form-urlencoded"
    let isForm = type.dropping(prefix: "application/x-www-form-urlencoded") != nil
    let query = request.uri.query
    return try await LongRead.of(body.readableBytes) {
      guard let form = isForm ? Form.parse(body.readableBytesView) : [],
        let query = query.map({ Form.parse(Array($0.utf8)) }) ?? []
      else { throw APIError("Too many parameters") }
      // The last field of a name counts, and the form takes precedence over the query.
      return try Parameters(checking: query + form, lookedUp: lookedUp)
    }
  }

  /// The bytes of all values together.
  package var bytes: Int { fields.reduce(0) { $0 + $1.value.utf8.count } }

  /// Reads only the query string, for requests whose body is JSON.
  package init(query request: Request) throws(APIError) {
    guard let fields = request.uri.query.map({ Form.parse(Array($0.utf8)) }) ?? [] else {
      throw APIError("Too many parameters")
    }
    try self.init(checking: fields)
  }

  package mutating func optional(_ name: String) -> String? {
    let name = Name(name)
    declared.append(name)
    return fields.last { $0.name == name }?.value
  }

  /// Declares parameters that are accepted and ignored.
  package mutating func ignore(_ names: Set<Name>) {
    declared += names
  }

  package mutating func required(_ name: String) throws(APIError) -> String {
    try Self.present(optional(name), name)
  }

  private static func present<Value>(_ value: Value?, _ name: String) throws(APIError) -> Value {
    guard let value else { throw .missing(name) }
    return value
  }

  /// An integer in JSON notation.
  package mutating func integer(_ name: String) throws(APIError) -> Int64 {
    try Self.present(optionalInteger(name), name)
  }

  package mutating func optionalInteger(_ name: String) throws(APIError) -> Int64? {
    try optionalJSON(name)?.integer()
  }

  package mutating func json(_ name: String) throws(APIError) -> Field {
    try Self.present(optionalJSON(name), name)
  }

  package mutating func optionalJSON(_ name: String) throws(APIError) -> Field? {
    guard let text = optional(name) else { return nil }
    do {
      return Field(try JSON.parse(text), path: name)
    } catch {
      throw APIError("\(name) is not valid JSON")
    }
  }

  /// A parameter whose value is a JSON array, which is read one element at a time.
  package mutating func list<Element>(
    _ name: String, _ read: (Field) throws(APIError) -> Element
  ) throws(APIError) -> [Element] {
    try Self.present(optionalList(name, read), name)
  }

  package mutating func optionalList<Element>(
    _ name: String, _ read: (Field) throws(APIError) -> Element
  ) throws(APIError) -> [Element]? {
    guard let text = optional(name) else { return nil }
    do {
      guard let list = try JSON.list(text, { try read(Field($0, path: "\(name)[\($1)]")) }) else {
        throw APIError("\(name) is not a list")
      }
      return list
    } catch let error as APIError {
      throw error
    } catch {
      throw APIError("\(name) is not valid JSON")
    }
  }

  /// The parameters that were sent and not declared so far, for another service that may know them. None if they are longer
  /// together than ``Additions/maximumPassedOn``.
  package var undeclared: [Form.Field] {
    var last: [Name: String] = [:]
    for field in fields where !declared.contains(field.name) { last[field.name] = field.value }
    let bytes = last.reduce(0) { $0 + $1.key.text.utf8.count + $1.value.utf8.count }
    guard bytes <= Additions.maximumPassedOn else { return [] }
    return last.sorted { $0.key < $1.key }.map { Form.Field(name: $0.key, value: $0.value) }
  }

  /// A success response, which lists the parameters that were sent but not declared. They are recorded as
  /// additions.
  package func success(_ members: [JSON.Object.Member] = [], noting notes: RequestNotes) -> Response {
    let ignored = fields.map(\.name).filter { !declared.contains($0) }
    guard !ignored.isEmpty else { return Envelope.success(members) }
    var additions = Additions()
    additions.addParameters(ignored.filter { !Self.usual.contains($0) })
    notes.record(additions)
    let names = Set(ignored).sorted().map { JSON.string($0.text) }
    return Envelope.success(members + [.init("ignored_parameters_unsupported", .array(names))])
  }

  /// The parameters that stock servers send to endpoints that do not have them.
  private static let usual: Set<Name> = ["server_uuid"]
}

/// The rules for a text parameter, in the order in which they are checked.
package struct TextRules: Sendable {
  var isStripped: Bool
  var length: Int?
  var maximum: Int?

  /// Removes surrounding white space and requires a rest of exactly `length`, or at most `maximum`,
  /// characters.
  package static func stripped(length: Int? = nil, maximum: Int? = nil) -> TextRules {
    TextRules(isStripped: true, length: length, maximum: maximum)
  }

  /// Keeps the text, which must have exactly `length`, or at most `maximum`, characters.
  package static func verbatim(length: Int? = nil, maximum: Int? = nil) -> TextRules {
    TextRules(isStripped: false, length: length, maximum: maximum)
  }

  /// Applies the rules; throws the 400 that names the parameter.
  package func apply(to text: String, name: String) throws(APIError) -> String {
    var text = text
    if isStripped {
      text = text.strippingWhitespace()
      if text.isEmpty { throw APIError("\(name) cannot be blank") }
    }
    if let length, text.unicodeScalars.count != length { throw APIError("\(name) is not length \(length)") }
    if let maximum, text.unicodeScalars.count > maximum {
      throw APIError("\(name) is too long (limit: \(maximum) characters)")
    }
    return text
  }
}

extension Parameters {
  package mutating func text(_ name: String, _ rules: TextRules) throws(APIError) -> String {
    try rules.apply(to: try required(name), name: name)
  }

  package mutating func optionalText(_ name: String, _ rules: TextRules) throws(APIError) -> String? {
    guard let text = optional(name) else { return nil }
    return try rules.apply(to: text, name: name)
  }
}

extension String {
  /// Removes white space from both ends, like Python's `strip`.
  package func strippingWhitespace() -> String {
    let scalars = unicodeScalars
    guard let first = scalars.firstIndex(where: { !$0.properties.isWhitespace }),
      let last = scalars.lastIndex(where: { !$0.properties.isWhitespace })
    else { return "" }
    return String(scalars[first...last])
  }
}
