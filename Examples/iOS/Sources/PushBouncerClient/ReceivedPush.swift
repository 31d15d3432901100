public import Foundation

/// What arrives at the phone: beside `aps` in an iPhone's `userInfo`, as `data` from Google.
public struct ReceivedPush: Sendable {
  /// The id of the subscription that it is for.
  public let subscription: String
  /// Nil if the chat server has sent no text, or it waits.
  let message: EncryptedMessage?
  /// The id under which a message waits at the gateway that did not fit into the push.
  let waiting: String?

  /// - Throws: ``PushError/malformed(_:)`` if it is no push of the gateway's.
  public init(_ members: [AnyHashable: Any]) throws(PushError) {
    func bytes(_ name: String) -> Data? { (members[name] as? String).flatMap(Base64URL.decode) }
    guard let subscription = members["subscription"] as? String, Base64URL.isID(subscription) else {
      throw .malformed("a push without a subscription")
    }
    self.subscription = subscription
    waiting = (members["message"] as? String).flatMap { Base64URL.isID($0) ? $0 : nil }
    guard let encoding = members["encoding"], waiting == nil else {
      message = nil
      return
    }
    message = try EncryptedMessage(
      bytes("body") ?? Data(), encoding: encoding as? String, sender: bytes("crypto_key"),
      salt: bytes("encryption"))
  }
}

/// A message as its sender has encrypted it.
public struct EncryptedMessage: Sendable, Equatable {
  let body: Data
  /// The sender's key (65 bytes) and the salt (16 bytes), which `aesgcm` has apart; nil for `aes128gcm`.
  let sender, salt: Data?

  /// - Throws: ``PushError/malformed(_:)`` if it is empty, longer than a push service takes (RFC 8030 section 7.2), or encrypted in
  ///   another way.
  public init(_ body: Data, encoding: String?, sender: Data? = nil, salt: Data? = nil) throws(PushError) {
    guard 1...4096 ~= body.count else { throw .malformed("a message of \(body.count) bytes") }
    self.body = Data(body)
    switch encoding {
    case "aes128gcm": (self.sender, self.salt) = (nil, nil)
    case "aesgcm" where sender?.count == 65 && salt?.count == 16: (self.sender, self.salt) = (sender, salt)
    default: throw .malformed("a message that is encrypted in no known way")
    }
  }
}
