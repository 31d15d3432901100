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

/// Sends what one service account serves.
struct FCMSender: Sendable {
  let origin: FCMOrigin
  let authorized: AuthorizedTransport
  let now: @Sendable () -> Date
  /// Who gives the access tokens.
  let tokenHost: String
  private let path: String

  init(
    origin: FCMOrigin, credential: FCMCredential, authorized: AuthorizedTransport,
    now: @escaping @Sendable () -> Date
  ) {
    (self.origin, self.authorized, self.now) = (origin, authorized, now)
    tokenHost = FCMOrigin(credential.tokenURI)?.authority ?? ""
    path = "\(origin.basePath)/v1/projects/\(credential.projectID)/messages:send"
  }

  func request(_ message: FCMMessage, authorization: String) -> ProviderRequest {
    let body = FCMRequest.body(message)
    return ProviderRequest(
      headers: FCMRequest.headers(path: path, origin: origin, authorization: authorization),
      body: body)
  }

  func meaning(of answer: ProviderResponse) -> (outcome: Outcome, remedy: Remedy) {
    let outcome = Outcome(fcm: answer, now: now)
    return (outcome, .afterFCM(outcome))
  }
}

extension ByteBuffer {
  /// Appends an object whose members are strings.
  mutating func writeJSON(_ members: some Sequence<(String, String)>) {
    var separator = UInt8(ascii: "{")
    for (name, value) in members {
      writeInteger(separator)
      separator = UInt8(ascii: ",")
      writeJSON(name)
      writeInteger(UInt8(ascii: ":"))
      writeJSON(value)
    }
    writeStaticString(separator == UInt8(ascii: "{") ? "{}" : "}")
  }

  /// Appends the string as JSON has it (RFC 8259 section 7): quoted, and escaped where it must be.
  mutating func writeJSON(_ string: String) {
    var string = string
    string.withUTF8 { bytes in
      writeInteger(UInt8(ascii: "\""))
      var plain = bytes[...]
      while let index = plain.firstIndex(where: Self.isEscaped) {
        writeBytes(plain[..<index])
        writeEscaped(plain[index])
        plain = plain[(index + 1)...]
      }
      writeBytes(plain)
      writeInteger(UInt8(ascii: "\""))
    }
  }

  private static func isEscaped(_ byte: UInt8) -> Bool {
    byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
  }

  private mutating func writeEscaped(_ byte: UInt8) {
    guard byte < 0x20 else {
      writeBytes([UInt8(ascii: "\\"), byte])
      return
    }
    let digits: StaticString = "0123456789abcdef"
    writeStaticString(byte < 0x10 ? "\\u000" : "\\u001")
    writeInteger(digits.utf8Start[Int(byte & 0xf)])
  }
}
