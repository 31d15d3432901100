import Foundation
import HTTPClient
import NIOCore
import NIOHPACK

/// A message as a request to FCM HTTP v1 (Firebase, REST reference, `projects.messages.send`).
extension FCMMessage {
  /// - Throws: for what Google is known to refuse, with the reason, which Google's `INVALID_ARGUMENT` does not name.
  func request(
    from sender: Sender, target: String, _ authorization: String
  ) throws(Sender.Unsendable) -> ProviderRequest {
    guard !data.keys.contains(where: Self.isReserved) else {
      throw .init(outcome: .rejected(.reservedDataName))
    }
    guard fits else { throw .init(outcome: .rejected(.payloadTooLarge)) }
    return ProviderRequest(
      headers: [
        ":method": "POST", ":scheme": sender.origin.scheme, ":authority": sender.origin.authority,
        ":path": sender.path, "authorization": authorization, "content-type": "application/json",
      ], body: json)
  }

  /// The JSON body, written by hand: `JSONEncoder` costs more than the rest of a request.
  var json: ByteBuffer {
    let size = data.reduce(token.utf8.count) {
      $0 + $1.key.utf8.count + $1.value.utf8.count + 6
    }
    var body = ByteBuffer()
    body.reserveCapacity(size + 160)
    body.writeStaticString(
      Self.isInstallationID(token) ? #"{"message":{"fid":"# : #"{"message":{"token":"#)
    body.writeJSON(token)
    body.writeStaticString(#","data":"#)
    body.writeJSON(data.lazy.map { ($0.key, $0.value) })
    let android = [
      ("priority", priority?.rawValue), ("ttl", timeToLive.map { "\(max(0, $0))s" }),
      ("collapse_key", collapseKey),
    ].lazy.compactMap { name, value in value.map { (name, $0) } }
    if !android.isEmpty {
      body.writeStaticString(#","android":"#)
      body.writeJSON(android)
    }
    body.writeStaticString("}")
    // Left out unless true, which is FCM's default.
    if isOnlyValidated { body.writeStaticString(#","validate_only":true"#) }
    body.writeStaticString("}")
    return body
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

  /// Appends a JSON string (RFC 8259 section 7), quoted and escaped.
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
