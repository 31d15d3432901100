public import Foundation

/// What arrives at the phone: beside `aps` in an iPhone's `userInfo`, as `data` from Google.
public struct ReceivedPush: Sendable {
  /// What there is of the message.
  public enum Content: Sendable, Equatable {
    /// The chat server has sent no text.
    case nothing
    /// All of it.
    case message(EncryptedMessage)
    /// It did not fit: ``Gateway/fetch(_:for:)`` has it, under this id.
    case waiting(id: String)
  }

  /// The id of the subscription that it is for.
  public let subscription: String
  /// The same text for each message of a topic, of which a phone shows the newest; nil if the message has none.
  public let topic: String?
  /// The message.
  public let content: Content

  /// - Throws: ``PushError/malformed(_:)`` if it is no push of the gateway's.
  public init(_ members: [AnyHashable: Any]) throws(PushError) {
    guard let subscription = members["subscription"] as? String, Base64URL.isID(subscription) else {
      throw .malformed("a push without a subscription")
    }
    self.subscription = subscription
    topic = members["topic"] as? String
    if members["encoding"] == nil {
      content = .nothing
    } else if let id = members["message"] as? String, Base64URL.isID(id) {
      content = .waiting(id: id)
    } else {
      func bytes(_ name: String) -> Data? { (members[name] as? String).flatMap(Base64URL.decode) }
      guard let body = bytes("body") else { throw .malformed("a push without a body") }
      content = .message(
        try EncryptedMessage(
          body, encoding: members["encoding"] as? String, sender: bytes("crypto_key"),
          salt: bytes("encryption")))
    }
  }
}

/// A message as its sender has encrypted it.
public struct EncryptedMessage: Sendable, Equatable {
  /// How it is encrypted.
  public enum Encoding: Sendable, Equatable {
    /// RFC 8291.
    case aes128gcm
    /// The draft before it, which has the sender's key, 65 bytes, and the salt, 16 bytes, apart.
    case aesgcm(sender: Data, salt: Data)
  }

  /// The longest that a push service takes, in bytes (RFC 8030 section 7.2).
  public static let maximumBody = 4096

  let body: Data
  let encoding: Encoding

  /// - Throws: ``PushError/malformed(_:)`` if it is too long, of no known encoding, or without what that needs.
  public init(_ body: Data, encoding: String?, sender: Data? = nil, salt: Data? = nil) throws(PushError) {
    guard body.count <= Self.maximumBody else { throw .malformed("a message of \(body.count) bytes") }
    self.body = body
    switch (encoding, sender, salt) {
    case ("aes128gcm", _, _): self.encoding = .aes128gcm
    case ("aesgcm", let sender?, let salt?): self.encoding = .aesgcm(sender: sender, salt: salt)
    default: throw .malformed("a message that is encrypted in no known way")
    }
  }
}
