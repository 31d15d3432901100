import Foundation
import NIOCore
import NIOHPACK

/// A message as a request to FCM HTTP v1 (Firebase, REST reference, `projects.messages.send`).
enum FCMRequest {
  /// The JSON body, written by hand: `JSONEncoder` costs more than the rest of a request.
  static func body(_ message: FCMMessage) -> ByteBuffer {
    let size = message.data.reduce(message.token.utf8.count) {
      $0 + $1.key.utf8.count + $1.value.utf8.count + 6
    }
    var body = ByteBuffer()
    body.reserveCapacity(size + 160)
    body.writeStaticString(
      FCMMessage.isInstallationID(message.token) ? #"{"message":{"fid":"# : #"{"message":{"token":"#)
    body.writeJSON(message.token)
    body.writeStaticString(#","data":"#)
    body.writeJSON(message.data.lazy.map { ($0.key, $0.value) })
    let android = [
      ("priority", message.priority?.rawValue), ("ttl", message.timeToLive.map { "\(max(0, $0))s" }),
      ("collapse_key", message.collapseKey),
    ].lazy.compactMap { name, value in value.map { (name, $0) } }
    if !android.isEmpty {
      body.writeStaticString(#","android":"#)
      body.writeJSON(android)
    }
    body.writeStaticString("}")
    // Left out unless true: FCM takes that for false.
    if message.isOnlyValidated { body.writeStaticString(#","validate_only":true"#) }
    body.writeStaticString("}")
    return body
  }

  /// The headers; those of one project differ only in the authorization.
  static func headers(path: String, origin: FCMOrigin, authorization: String) -> HPACKHeaders {
    [
      ":method": "POST", ":scheme": origin.scheme, ":authority": origin.authority, ":path": path,
      "authorization": authorization, "content-type": "application/json",
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
