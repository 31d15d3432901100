internal import HTTP
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore

/// The parameters of `/devices`, wherever a client puts them: a form, a JSON object or the query string, on
/// `DELETE` as well as on `POST`. Others are not looked at. Names and values are compared by their bytes:
/// characters would cost whoever sends thousands of combining marks nothing, and this program much.
struct DeviceParameters {
  private var values: [Name: String] = [:]
  /// What the caller calls itself, the more telling first: Files on Android says it in a field.
  let userAgents: [String]

  private static let names: Set<Name> = [
    "pushToken", "deviceIdentifier", "deviceIdentifierSignature", "userPublicKey",
  ]

  init(_ request: Request, limit: Int) async throws {
    let body = try await request.wholeBody(upTo: limit)
    let fields = try Self.fields(body, type: request.headers[.contentType] ?? "")
    guard let query = request.uri.query.map({ Form.parse(Array($0.utf8)) }) ?? [] else {
      throw ProxyError("There are too many parameters.")
    }
    userAgents =
      [fields.last { $0.name == "http.useragent" }?.value, request.headers[.userAgent]].compactMap(\.self)
    for field in fields + query where Self.names.contains(field.name) {
      let (name, value) = (field.name, field.value)
      guard value.isStorable else { throw ProxyError("\(name) has invalid format.") }
      guard values.updateValue(value, forKey: name)?.hasSameBytes(as: value) ?? true else {
        throw ProxyError("\(name) is there twice, with different values. Send it once.")
      }
    }
  }

  private static func fields(_ body: ByteBuffer, type: String) throws -> [Form.Field] {
    let bytes = body.readableBytesView
    guard type.contains(ascii: "json") || bytes.first == UInt8(ascii: "{") else {
      guard let form = Form.parse(bytes) else { throw ProxyError("There are too many parameters.") }
      return form
    }
    guard !bytes.isEmpty else { return [] }
    guard case .object(let object) = try? JSON.parse(body) else {
      throw ProxyError("The body is no JSON object. Send the parameters as a form.")
    }
    return try object.members.compactMap { member in
      switch member.value {
      case .string(let text): return Form.Field(name: member.name, value: text)
      case .null: return nil
      default:
        guard names.contains(member.name) else { return nil }
        throw ProxyError("\(member.name) must be a string.")
      }
    }
  }

  /// A parameter that must be there and not be empty.
  func required(_ name: String) throws(ProxyError) -> String {
    guard let value = values[Name(name)], !value.isEmpty else { throw ProxyError("\(name) is missing.") }
    return value
  }
}
