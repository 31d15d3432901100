import Foundation
import NIOCore
import NIOFoundationCompat
import NIOHPACK

/// A message as a request to FCM HTTP v1 (Firebase, REST reference, `projects.messages.send`).
enum FCMRequest {
  private struct Body: Encodable {
    struct Android: Encodable {
      var priority: String?
      var ttl: String?
      var collapseKey: String?

      enum CodingKeys: String, CodingKey {
        case priority, ttl
        case collapseKey = "collapse_key"
      }
    }

    struct Message: Encodable {
      var token: String
      var data: [String: String]
      var android: Android?
    }

    var message: Message
    /// Left out unless true: FCM takes that for false.
    var validateOnly: Bool?

    enum CodingKeys: String, CodingKey {
      case message
      case validateOnly = "validate_only"
    }
  }

  private static let encoder: JSONEncoder = {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.withoutEscapingSlashes]
    return encoder
  }()

  /// The JSON body.
  static func body(_ message: FCMMessage) throws -> ByteBuffer {
    var android: Body.Android?
    if message.priority != nil || message.timeToLive != nil || message.collapseKey != nil {
      android = Body.Android(
        priority: message.priority?.rawValue, ttl: message.timeToLive.map { "\(max(0, $0))s" },
        collapseKey: message.collapseKey)
    }
    let body = Body(
      message: .init(token: message.token, data: message.data, android: android),
      validateOnly: message.isOnlyValidated ? true : nil)
    return ByteBuffer(data: try encoder.encode(body))
  }

  /// The headers; those of one project differ only in the authorization.
  static func headers(project: String, origin: FCMOrigin, authorization: String) -> HPACKHeaders {
    [
      ":method": "POST", ":scheme": origin.scheme, ":authority": origin.authority,
      ":path": "\(origin.basePath)/v1/projects/\(project)/messages:send", "authorization": authorization,
      "content-type": "application/json",
    ]
  }
}

/// Where FCM is.
struct FCMOrigin: Sendable, Hashable {
  let scheme: String
  let authority: String
  let host: String
  let port: Int
  /// Before `/v1`, without a final slash.
  let basePath: String

  /// An origin without a path before `/v1`.
  init(scheme: String, host: String, port: Int, basePath: String = "") {
    self.scheme = scheme
    self.host = host
    self.port = port
    self.basePath = basePath
    let name = host.contains(":") ? "[\(host)]" : host
    authority = port == (scheme == "http" ? 80 : 443) ? name : "\(name):\(port)"
  }

  /// From an `http` or `https` URL; nil for any other.
  init?(_ url: URL) {
    guard let scheme = url.scheme, scheme == "http" || scheme == "https",
      let host = url.host(percentEncoded: false), !host.isEmpty
    else { return nil }
    let path = url.path(percentEncoded: true)
    self.init(
      scheme: scheme, host: host, port: url.port ?? (scheme == "http" ? 80 : 443),
      basePath: path.hasSuffix("/") ? String(path.dropLast()) : path)
  }
}
