import HTTP
import HTTPTypes
import Hummingbird
import NIOCore

/// A call of an OCS endpoint, with its parameters from the body (a form or JSON) and the query. Fields of the
/// body take precedence.
struct OCSRequest: Sendable {
  private let fields: [Form.Field]
  let version: OCSVersion
  /// The format requested for the answer.
  let format: OCSFormat
  let headers: HTTPFields
  let context: WireContext

  init(_ request: Request, _ context: WireContext, limit: Int) async throws {
    let query = Self.fields(ofQuery: request.uri.query)
    let body = try await request.wholeBody(upTo: limit)
    self.context = context
    headers = request.headers
    fields = query + Self.fields(of: body, type: headers[.contentType] ?? "")
    var additions = Additions()
    additions.addParameters(fields.lazy.map(\.name).filter { !Self.isKnown($0) })
    context.notes.record(additions)
    version = OCSVersion(path: request.uri.path) ?? .v2
    format = OCSFormat(parameter: Self.last("format", of: fields), accept: headers[.accept])
  }

  /// The parameters of all endpoints together, and what apps send beside them.
  private static let known: Set<Name> = [
    "format", "pushTokenHash", "devicePublicKey", "proxyServer", "endpoint", "uaPublicKey", "auth",
    "appTypes",
    "activationToken", "ids", "app", "objectType", "objectId",
  ]

  private static func isKnown(_ name: Name) -> Bool {
    known.contains(Name(String(Substring(name.text.utf8.prefix { $0 != UInt8(ascii: "[") }))))
  }

  var userAgent: String { headers[.userAgent] ?? "" }

  /// A text parameter; empty if it is absent or cannot be stored, which every check of a parameter refuses.
  subscript(name: Name) -> String { text(name) ?? "" }

  /// A text parameter that may be empty or absent (then empty); nil if it cannot be stored.
  func text(_ name: Name) -> String? {
    let text = Self.last(name, of: fields) ?? ""
    return text.isStorable ? text : nil
  }

  /// A list parameter: in forms and queries `name[]` or `name[0]` for each element.
  ///
  /// - Throws: 400 if it is a single value.
  func list(_ name: Name) throws(OCSAnswer) -> [String] {
    guard Self.last(name, of: fields) == nil else { throw OCSAnswer(.badRequest) }
    let beginning = "\(name)[".utf8
    return fields.filter { field in
      field.name.text.utf8.starts(with: beginning) && field.name.text.utf8.last == UInt8(ascii: "]")
    }.map(\.value)
  }

  static func parameter(_ name: Name, ofQuery query: String?) -> String? {
    last(name, of: fields(ofQuery: query))
  }

  private static func fields(ofQuery query: String?) -> [Form.Field] {
    query.flatMap { Form.parse(Array($0.utf8)) } ?? []
  }

  private static func last(_ name: Name, of fields: [Form.Field]) -> String? {
    fields.last { $0.name == name }?.value
  }

  private static func fields(of body: ByteBuffer, type: String) -> [Form.Field] {
    let type = type.utf8.prefix { $0 != UInt8(ascii: ";") && $0 != UInt8(ascii: " ") }.map { $0 | 0x20 }
    if type.starts(with: "application/".utf8),
      type.suffix(5).elementsEqual("/json".utf8) || type.suffix(5).elementsEqual("+json".utf8)
    {
      guard case .object(let object)? = try? JSON.parse(body) else { return [] }
      return object.members.flatMap { member in
        guard case .array(let elements) = member.value else {
          return text(of: member.value).map { [Form.Field(name: member.name, value: $0)] } ?? []
        }
        let name = Name("\(member.name)[]")
        return elements.map { Form.Field(name: name, value: text(of: $0) ?? "") }
      }
    }
    guard type.isEmpty || type.elementsEqual("application/x-www-form-urlencoded".utf8) else { return [] }
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

extension JSON {
  /// Encodes like PHP's `json_encode`, byte for byte and without white space: `/` is escaped, and non-ASCII
  /// characters as `\uXXXX`. Needed where JSON is signed or its bytes counted
  /// (`Documentation/Protocols/Nextcloud.md` 2.2, 6.4).
  ///
  /// - Parameter hexTags: escapes `<` and `>` too (`JSON_HEX_TAG`), as in OCS answers.
  func php(hexTags: Bool = false) -> [UInt8] {
    var output: [UInt8] = []
    for unit in text.utf16 {
      switch unit {
      case 0x2F: output += #"\/"#.utf8
      case 0x3C where hexTags: output += #"\u003C"#.utf8
      case 0x3E where hexTags: output += #"\u003E"#.utf8
      case ..<0x80: output.append(UInt8(truncatingIfNeeded: unit))
      default:
        let digits = String(unit, radix: 16)
        output += "\\u\(String(repeating: "0", count: 4 - digits.count))\(digits)".utf8
      }
    }
    return output
  }
}
