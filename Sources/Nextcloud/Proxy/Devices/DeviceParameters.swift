internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import Wire

/// The parameters of `/devices`, wherever a client puts them: a form, a JSON object or the query string, on
/// `DELETE` as well as on `POST`. Others are not looked at. Names and values are compared by their bytes:
/// characters would cost whoever sends thousands of combining marks nothing, and this program much.
struct DeviceParameters {
  private var values: [String: String] = [:]
  /// What the caller calls itself, the more telling first: Files on Android says it in a field.
  let userAgents: [String]

  private static let names = ["pushToken", "deviceIdentifier", "deviceIdentifierSignature", "userPublicKey"]

  /// The name of a parameter that counts.
  private static func known(_ name: String) -> String? { names.first { $0.utf8.elementsEqual(name.utf8) } }

  init(_ request: Request, limit: Int) async throws {
    let body = try await request.body.collect(upTo: limit)
    let fields = try Self.fields(body, type: request.headers[.contentType] ?? "")
    guard let query = request.uri.query.map({ Form.parse(Array($0.utf8)) }) ?? [] else {
      throw ProxyError("There are too many parameters.")
    }
    userAgents =
      [fields.last { $0.name.utf8.elementsEqual("http.useragent".utf8) }?.value, request.headers[.userAgent]]
      .compactMap(\.self)
    for (name, value) in fields + query {
      guard let name = Self.known(name) else { continue }
      guard values.updateValue(value, forKey: name)?.utf8.elementsEqual(value.utf8) != false else {
        throw ProxyError("\(name) is there twice, with different values. Send it once.")
      }
    }
  }

  private static func fields(_ body: ByteBuffer, type: String) throws -> [(name: String, value: String)] {
    let bytes = body.readableBytesView
    guard type.lowercased().contains("json") || bytes.first == UInt8(ascii: "{") else {
      guard let form = Form.parse(bytes) else { throw ProxyError("There are too many parameters.") }
      return form
    }
    guard !bytes.isEmpty else { return [] }
    guard case .object(let object) = try? JSON.parse(body) else {
      throw ProxyError("The body is no JSON object. Send the parameters as a form.")
    }
    return try object.members.compactMap { member in
      switch member.value {
      case .string(let text): return (member.name, text)
      case .null: return nil
      default:
        guard let name = known(member.name) else { return nil }
        throw ProxyError("\(name) must be a string.")
      }
    }
  }

  /// A parameter that must be there and not be empty.
  func required(_ name: String) throws(ProxyError) -> String {
    guard let value = values[name], !value.isEmpty else { throw ProxyError("\(name) is missing.") }
    return value
  }
}
