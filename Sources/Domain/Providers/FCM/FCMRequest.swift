import Basics
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
    var body: [UInt8] = []
    body.reserveCapacity(size + 160)
    body += (Self.isInstallationID(token) ? #"{"message":{"fid":"# : #"{"message":{"token":"#).utf8
    body.appendJSON(token)
    body += #","data":"#.utf8
    var separator = UInt8(ascii: "{")
    for (name, value) in data { body.appendMember(name, value, after: &separator) }
    body += (data.isEmpty ? "{}" : "}").utf8
    if priority != nil || timeToLive != nil || collapseKey != nil {
      body += #","android":"#.utf8
      separator = UInt8(ascii: "{")
      if let priority { body.appendMember("priority", priority.rawValue, after: &separator) }
      if let timeToLive { body.appendMember("ttl", "\(max(0, timeToLive))s", after: &separator) }
      if let collapseKey { body.appendMember("collapse_key", collapseKey, after: &separator) }
      body += "}".utf8
    }
    body += "}".utf8
    // Left out unless true, which is FCM's default.
    if isOnlyValidated { body += #","validate_only":true"#.utf8 }
    body += "}".utf8
    return ByteBuffer(bytes: body)
  }
}

extension [UInt8] {
  /// Appends a member that is a string, after the bracket or comma that comes before it.
  fileprivate mutating func appendMember(_ name: String, _ value: String, after separator: inout UInt8) {
    append(separator)
    separator = UInt8(ascii: ",")
    appendJSON(name)
    append(UInt8(ascii: ":"))
    appendJSON(value)
  }
}
