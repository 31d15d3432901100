import Crypto
package import Foundation
import HTTPClient
package import NIOCore
import NIOHPACK

/// A message for a subscription, sent with a `POST` to its endpoint (RFC 8030). Encrypted anew for each attempt, with a
/// new key and salt.
package struct WebPushMessage: Sendable, Codable {
  /// `Urgency`: lets a device that saves power skip less urgent messages.
  package enum Urgency: String, Sendable, CaseIterable, Codable {
    case veryLow = "very-low"
    case low, normal, high
  }

  /// Push services need not take more than 4096 bytes (RFC 8030 section 7.2); 103 of these are the header and the tag of
  /// `aes128gcm` (RFC 8291 section 4).
  package static let maximumBody = 3993

  package var subscription: WebPushSubscription
  /// The plaintext, at most ``maximumBody`` bytes.
  package var body: ByteBuffer
  package var urgency: Urgency
  /// `TTL`: how long the push service keeps the message for a device that is offline, in seconds; nil means
  /// four weeks.
  package var timeToLive: Int?
  /// A newer message with the same id replaces one that is not delivered yet. `Topic` is derived from it.
  package var collapseID: String?

  package init(
    subscription: WebPushSubscription, body: ByteBuffer, urgency: Urgency, timeToLive: Int? = nil,
    collapseID: String? = nil
  ) {
    self.subscription = subscription
    self.body = body
    self.urgency = urgency
    self.timeToLive = timeToLive
    self.collapseID = collapseID
  }
}

extension WebPushMessage: ProviderMessage {
  var push: Push { .webPush(self) }
  /// By its topic.
  var isRecognizedAgain: Bool { collapseID != nil }
  var payloadBytes: Int { body.readableBytes }
  var tokenHash: Int? { subscription.endpoint.url.hashValue }
  var unservedRoute: Route {
    Route(provider: .webPush, credential: subscription.endpoint.authority, target: "")
  }
  var fits: Bool { payloadBytes <= Self.maximumBody }

  func expiration(from start: Date) -> Date? { timeToLive.map { start + TimeInterval($0) } }
  mutating func wait(_ seconds: TimeInterval) { timeToLive = Self.rest(of: timeToLive, after: seconds) }
  func name(of registration: Int64) -> Push.DeviceName? { .token(subscription.token) }

  func request(
    from sender: Sender, target: String, _ authorization: String
  ) throws(Sender.Unsendable) -> ProviderRequest {
    guard fits else { throw .init(outcome: .rejected(.payloadTooLarge)) }
    // RFC 8030 requires a TTL. Four weeks is FCM's default.
    let timeToLive = max(0, self.timeToLive ?? 28 * 86_400)
    var headers: HPACKHeaders = [
      ":method": "POST", ":scheme": "https", ":authority": sender.origin.authority,
      ":path": subscription.endpoint.path, "authorization": authorization,
      "content-encoding": "aes128gcm", "content-type": "application/octet-stream", "ttl": "\(timeToLive)",
      "urgency": urgency.rawValue,
    ]
    if let collapseID {
      // 32 characters of base64url (RFC 8030 section 5.4). Keyed, so that the push service cannot find out
      // the id by guessing.
      let key = SymmetricKey(data: subscription.secret)
      let code = HMAC<SHA256>.authenticationCode(for: Data(collapseID.utf8), using: key)
      headers.add(name: "topic", value: Base64URL.encode(Array(code).prefix(24)))
    }
    // Encryption cannot fail, since the key was checked when the subscription was read. If it did, the push
    // service would refuse the empty body.
    return ProviderRequest(
      headers: headers,
      body: (try? WebPushEncryption.encrypt(body, for: subscription)) ?? ByteBuffer())
  }
}

/// Encrypts messages for a subscription, with the content coding `aes128gcm` (RFC 8188, RFC 8291).
package enum WebPushEncryption {
  /// Size of a record in bytes: the most that every push service accepts, so that a message is one record.
  private static let recordSize: UInt32 = 4096
  private static let saltSize = 16

  /// The encrypted body of a request.
  ///
  /// - Parameters:
  ///   - sender: a key pair for this message only.
  ///   - salt: 16 random bytes.
  /// - Throws: swift-crypto's error if the subscription's public key is invalid; it was checked when the
  ///   subscription was read.
  package static func encrypt(
    _ plaintext: ByteBuffer, for subscription: WebPushSubscription
  ) throws -> ByteBuffer {
    try encrypt(plaintext, for: subscription, sender: P256.KeyAgreement.PrivateKey(), salt: randomSalt())
  }

  static func encrypt(
    _ plaintext: ByteBuffer, for subscription: WebPushSubscription, sender: P256.KeyAgreement.PrivateKey,
    salt: [UInt8]
  ) throws -> ByteBuffer {
    let phone = try P256.KeyAgreement.PublicKey(x963Representation: subscription.publicKey)
    let senderKey = sender.publicKey.x963Representation
    // RFC 8291 section 3.4.
    let input = try sender.sharedSecretFromKeyAgreement(with: phone).hkdfDerivedSymmetricKey(
      using: SHA256.self, salt: subscription.secret,
      sharedInfo: Data("WebPush: info\0".utf8) + subscription.publicKey + senderKey, outputByteCount: 32)
    // RFC 8188 sections 2.2 and 2.3.
    let random = HKDF<SHA256>.extract(inputKeyMaterial: input, salt: salt)
    let key = HKDF<SHA256>.expand(
      pseudoRandomKey: random, info: Data("Content-Encoding: aes128gcm\0".utf8), outputByteCount: 16)
    let nonce = HKDF<SHA256>.expand(
      pseudoRandomKey: random, info: Data("Content-Encoding: nonce\0".utf8), outputByteCount: 12)
    // The delimiter 2 marks the last record.
    let record = try AES.GCM.seal(
      Data(plaintext.readableBytesView) + [2], using: key,
      nonce: nonce.withUnsafeBytes { try AES.GCM.Nonce(data: $0) })
    var body = ByteBuffer()
    body.reserveCapacity(saltSize + 5 + senderKey.count + record.ciphertext.count + record.tag.count)
    body.writeBytes(salt)
    body.writeInteger(recordSize)
    body.writeInteger(UInt8(senderKey.count))
    body.writeBytes(senderKey)
    body.writeBytes(record.ciphertext)
    body.writeBytes(record.tag)
    return body
  }

  private static func randomSalt() -> [UInt8] {
    SymmetricKey(size: SymmetricKeySize(bitCount: saltSize * 8)).withUnsafeBytes([UInt8].init)
  }
}

/// The key pair that identifies us to push services (RFC 8292). Subscriptions are bound to it, so it is
/// created once and kept.
package struct VAPIDKey: Sendable {
  let privateKey: P256.Signing.PrivateKey

  package init() { privateKey = P256.Signing.PrivateKey() }

  /// - Throws: swift-crypto's error if the 32 bytes are not a private key.
  package init(rawRepresentation: some ContiguousBytes) throws {
    privateKey = try P256.Signing.PrivateKey(rawRepresentation: rawRepresentation)
  }

  /// The private key, 32 bytes.
  package var rawRepresentation: Data { privateKey.rawRepresentation }

  /// The public key as apps subscribe with it: base64url of the uncompressed point, 87 characters.
  package var publicKey: String { Base64URL.encode(privateKey.publicKey.x963Representation) }
}

/// The authorization for push services (RFC 8292): a JSON Web Token for their origin, and the public key.
enum VAPIDToken {
  /// Time until `exp`, in seconds. Push services accept at most a day.
  static let lifetime: TimeInterval = 12 * 3600
  /// A younger token is not replaced when it is refused, because a new one would be refused as well.
  static let limits = TokenCache.Limits(minimumAge: 600)

  private struct Claims: Encodable {
    let aud: String
    let exp: Int
    let sub: String
  }

  static func make(
    for origin: String, by webPush: PushProviders.Configuration.WebPush, now: Date
  ) -> Result<AccessToken, TokenFailure> {
    let claims = Claims(
      aud: origin, exp: Int((now.timeIntervalSince1970 + lifetime).rounded(.down)), sub: webPush.contact)
    let token = try? JWT.sign(header: ["typ": "JWT", "alg": "ES256"], claims: claims) {
      try webPush.key.privateKey.signature(for: $0).rawRepresentation
    }
    guard let token else { return .failure(.refused(.vapidRefused)) }
    return .success(
      AccessToken(
        authorization: "vapid t=\(token), k=\(webPush.key.publicKey)", issuedAt: now,
        renewAt: now.addingTimeInterval(lifetime / 2), expiresAt: now.addingTimeInterval(lifetime - 1800)))
  }
}
