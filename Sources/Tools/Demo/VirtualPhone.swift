import Foundation
package import HTTP
package import Providers
package import Sealing

/// A phone with a chat app, as far as pushes go: it makes push keys, seals its registration to the bouncer,
/// and decrypts notifications (`Documentation/Protocols/Zulip.md` 5).
package struct VirtualPhone: Sendable {
  /// The token kind that it registers with; a phone without Google's services counts as Android.
  package let kind: PushToken.Kind
  /// The app's bundle id; nil on Android.
  let appID: String?
  /// Its token at the provider.
  package private(set) var token: String { didSet { tokens.insert(token) } }
  /// Every token that it has had: pushes to an old one still arrive for a while.
  package private(set) var tokens: Set<String>
  /// Its Web Push subscriptions, the newest last; empty with APNs or FCM.
  package private(set) var subscriptions: [PushSubscription] = []
  /// The keys under which the chat server may seal, by their ids; an old key stays for a while.
  private(set) var keys: [UInt32: PushKey] = [:]
  /// The id of the newest key.
  package private(set) var keyID: UInt32 = 0

  /// - Parameter token: the token of another app on the same phone; nil: a new one.
  package init(_ kind: PushToken.Kind, appID: String?, token: String? = nil) {
    self.kind = kind
    self.appID = kind == .apns ? appID : nil
    let token = token ?? Self.newToken(kind)
    self.token = token
    tokens = [token]
    rotateKey()
  }

  /// A phone without Google: messages come by Web Push.
  package init(_ subscription: PushSubscription) {
    self.init(.fcm, appID: nil, token: subscription.token)
    subscriptions = [subscription]
  }

  /// The id under which chat servers store the token.
  package var tokenID: TokenID { TokenID(token: token) }

  var key: PushKey { keys[keyID] ?? .generate() }

  /// Makes a new push key. The old one still opens notifications that are on their way.
  package mutating func rotateKey() {
    keyID = .random(in: 0 ... .max)
    keys[keyID] = .generate()
  }

  /// Gets a new token from the push service, as after a reinstallation.
  package mutating func rotateToken() {
    token = Self.newToken(kind)
  }

  /// Replaces its Web Push subscription, as after a change of the distributor.
  package mutating func move(to subscription: PushSubscription) {
    subscriptions.append(subscription)
    token = subscription.token
  }

  /// The registration with the token, sealed to the bouncer's public key, in base64.
  func sealedRegistration(to bouncerKey: String, at time: Date = Date()) throws -> String {
    var registration: JSON.Object = [
      "token": .string(token), "token_kind": .string(kind.rawValue),
      "timestamp": .integer(Int64(time.timeIntervalSince1970)),
    ]
    registration["ios_app_id"] = appID.map(JSON.string)
    guard let publicKey = Base64.decodeStrictly(bouncerKey),
      let sealed = SealedBox.seal(JSON.object(registration).bytes, to: publicKey)
    else { throw DemoError("\(bouncerKey) is not a bouncer's public key") }
    return Base64.encode(sealed)
  }

  /// Decrypts a delivery; nil if it is not for this phone or does not decrypt.
  func receive(_ delivery: JSON) -> String? {
    guard token(of: delivery) != nil else { return nil }
    return try? delivery["payload"].map(open)
  }

  /// The token that a provider delivered to; nil if it is none of this phone's.
  package func token(of delivery: JSON) -> String? {
    guard let address = delivery["token"]?.string else { return nil }
    return tokens.contains(address) ? address : subscriptions.first { $0.id == address }?.token
  }

  /// Decrypts a payload with the key that `push_key_id` names. A Web Push payload is also encrypted for the
  /// subscription.
  package func open(_ payload: JSON) throws(Unreadable) -> String {
    if let body = payload.string.flatMap(Base64.decodeStrictly) {
      guard let opened = subscriptions.lazy.compactMap({ $0.open(body) }).first else { throw .wrongKey }
      guard let inner = try? JSON.parse(opened) else { throw .malformed }
      return try open(inner)
    }
    let fields = payload["message"]?["data"] ?? payload
    let id = fields["push_key_id"].flatMap { $0.integer ?? $0.string.flatMap { Int64($0) } }
    guard let id, let sealed = fields["encrypted_data"]?.string.flatMap(Base64.decodeStrictly) else {
      throw .notEncrypted
    }
    guard let key = keys[UInt32(truncatingIfNeeded: id)] else { throw .unknownKey(id) }
    guard let plaintext = key.open(sealed) else { throw .wrongKey }
    guard let text = String(validating: plaintext, as: UTF8.self) else { throw .malformed }
    return text
  }

  private static func newToken(_ kind: PushToken.Kind) -> String {
    switch kind {
    case .apns:
      (0..<32).map { _ in String(format: "%02x", UInt8.random(in: .min ... .max)) }.joined()
    case .fcm: "\(RandomText.alphanumeric(22)):APA91b\(RandomText.alphanumeric(134))"
    }
  }
}
