internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import Wire

/// A call of an OCS endpoint: its parameters, of the query and of the body, whose fields go before those of
/// the query. A body is a form or JSON.
struct OCSRequest: Sendable {
  private let fields: [(name: String, value: String)]
  /// Under which name the endpoint was called.
  let version: OCSVersion
  /// How its answer is written.
  let format: OCSFormat
  /// The headers it came with.
  let headers: HTTPFields
  /// Whose it is, and what its path names.
  let context: WireContext

  /// Reads a request.
  init(_ request: Request, _ context: WireContext, limit: Int) async throws {
    let query = Self.fields(ofQuery: request.uri.query)
    let body = try await request.body.collect(upTo: limit)
    self.context = context
    headers = request.headers
    fields = query + Self.fields(of: body, type: headers[.contentType] ?? "")
    version = OCSVersion(path: request.uri.path) ?? .v2
    format = OCSFormat(parameter: Self.last("format", of: fields), accept: headers[.accept])
  }

  /// What sends it.
  var userAgent: String { headers[.userAgent] ?? "" }

  /// A text parameter; empty if it was not sent, which no check lets pass.
  subscript(name: String) -> String { Self.last(name, of: fields) ?? "" }

  /// A parameter that is a list: in forms and queries `name[]` or `name[0]` for each element.
  ///
  /// - Throws: 400 if it is a single value.
  func list(_ name: String) throws(OCSAnswer) -> [String] {
    guard Self.last(name, of: fields) == nil else { throw OCSAnswer(.badRequest) }
    let beginning = "\(name)[".utf8
    return fields.filter { field in
      field.name.utf8.starts(with: beginning) && field.name.utf8.last == UInt8(ascii: "]")
    }.map(\.value)
  }

  /// A parameter of a query alone.
  static func parameter(_ name: String, ofQuery query: String?) -> String? {
    last(name, of: fields(ofQuery: query))
  }

  private static func fields(ofQuery query: String?) -> [(name: String, value: String)] {
    query.flatMap { Form.parse(Array($0.utf8)) } ?? []
  }

  /// By bytes: names from outside would be compared in quadratic time as characters.
  private static func last(_ name: String, of fields: [(name: String, value: String)]) -> String? {
    fields.last { $0.name.utf8.elementsEqual(name.utf8) }?.value
  }

  private static func fields(of body: ByteBuffer, type: String) -> [(name: String, value: String)] {
    let type = type.prefix { $0 != ";" && $0 != " " }.lowercased()
    if type == "application/json" || (type.hasPrefix("application/") && type.hasSuffix("+json")) {
      guard case .object(let object)? = try? JSON.parse(body) else { return [] }
      return object.members.flatMap { member in
        guard case .array(let elements) = member.value else {
          return text(of: member.value).map { [(member.name, $0)] } ?? []
        }
        return elements.map { ("\(member.name)[]", text(of: $0) ?? "") }
      }
    }
    guard type.isEmpty || type == "application/x-www-form-urlencoded" else { return [] }
    return Form.parse(body.readableBytesView) ?? []
  }

  private static func text(of value: JSON) -> String? {
    switch value {
    case .string(let text): text
    case .integer(let number): String(number)
    default: nil
    }
  }
}
