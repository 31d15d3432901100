internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import Wire

/// The parameters of `/devices`, wherever a client puts them: a form, a JSON object or the query string, on
/// `DELETE` as well as on `POST` (`spec/nextcloud.md` 5.0). Others are not looked at.
struct DeviceParameters {
  private var values: [String: String] = [:]
  /// What the caller calls itself, the more telling first: Files on Android says it in a field.
  let userAgents: [String]

  private static let names: Set<String> = [
    "pushToken", "deviceIdentifier", "deviceIdentifierSignature", "userPublicKey", "cloudId",
  ]

  init(_ request: Request, limit: Int) async throws {
    let body = try await request.body.collect(upTo: limit)
    let fields = try Self.fields(body, type: request.headers[.contentType] ?? "")
    guard let query = request.uri.query.map({ Form.parse(Array($0.utf8)) }) ?? [] else {
      throw ProxyError("There are too many parameters.")
    }
    userAgents =
      [fields.last { $0.name == "http.useragent" }?.value, request.headers[.userAgent]].compactMap(\.self)
    for (name, value) in fields + query where Self.names.contains(name) {
      guard values.updateValue(value, forKey: name) ?? value == value else {
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
        guard names.contains(member.name) else { return nil }
        throw ProxyError("\(member.name) must be a string.")
      }
    }
  }

  /// A parameter that was sent and is not empty.
  func optional(_ name: String) -> String? {
    values[name].flatMap { $0.isEmpty ? nil : $0 }
  }

  /// A parameter that must be there.
  func required(_ name: String) throws(ProxyError) -> String {
    guard let value = optional(name) else { throw ProxyError("\(name) is missing.") }
    return value
  }
}
