package import AsyncHTTPClient
import Crypto
import Foundation
import HTTP
import NIOCore
import NIOHTTP1
import Providers
import Sealing

/// A Web Push subscription as its phone stores it: the endpoint, and the keys that decrypt messages (RFC
/// 8291). Written from the standard and independent of the service's sender, so that each detects mistakes of
/// the other.
package struct PushSubscription: Sendable {
  let endpoint: String
  private let key: P256.KeyAgreement.PrivateKey
  private let secret: [UInt8]

  /// With a key pair and a secret of its own, unless others are given.
  init(
    endpoint: String, key: P256.KeyAgreement.PrivateKey = .init(),
    secret: [UInt8] = (0..<16).map { _ in .random(in: .min ... .max) }
  ) {
    self.endpoint = endpoint
    self.key = key
    self.secret = secret
  }

  /// The endpoint's last part.
  var id: Substring { endpoint.split(separator: "/").last ?? "" }

  /// The public key, in base64url.
  var p256dh: String { Base64URL.encode(key.publicKey.x963Representation) }

  /// The secret, in base64url.
  var auth: String { Base64URL.encode(secret) }

  /// The subscription as a token for the bouncer (`Documentation/Apps.md`).
  var token: String {
    let fields: JSON = ["endpoint": .string(endpoint), "p256dh": .string(p256dh), "auth": .string(auth)]
    return "webpush:" + Base64URL.encode(fields.bytes)
  }

  /// Opens a message as the push service shows it, whose plaintext is JSON.
  func open(_ message: JSON) throws(Unreadable) -> JSON {
    guard let body = message["payload"]?.string.flatMap(Base64.decodeStrictly) else { throw .notEncrypted }
    guard let plaintext = open(body) else { throw .wrongKey }
    guard let notification = try? JSON.parse(plaintext) else { throw .malformed }
    return notification
  }

  /// Opens a message; nil if it is not for this subscription.
  func open(_ body: some Collection<UInt8>) -> [UInt8]? {
    // RFC 8188 2.1: salt, record size, and here the sender's public key.
    let body = Array(body)
    guard body.count > 86, body[20] == 65,
      let sender = try? P256.KeyAgreement.PublicKey(x963Representation: body[21..<86]),
      let shared = try? key.sharedSecretFromKeyAgreement(with: sender)
    else { return nil }
    let input = shared.hkdfDerivedSymmetricKey(
      using: SHA256.self, salt: secret,
      sharedInfo: Array("WebPush: info\0".utf8) + key.publicKey.x963Representation + body[21..<86],
      outputByteCount: 32)
    func derive(_ info: String, _ count: Int) -> SymmetricKey {
      HKDF<SHA256>.deriveKey(
        inputKeyMaterial: input, salt: body[..<16], info: Array("Content-Encoding: \(info)\0".utf8),
        outputByteCount: count)
    }
    let record = body[86...]
    let recordSize = body[16..<20].reduce(0) { $0 << 8 | Int($1) }
    guard record.count < recordSize, record.count > 16,
      let nonce = try? AES.GCM.Nonce(data: derive("nonce", 12).withUnsafeBytes { Array($0) }),
      let box = try? AES.GCM.SealedBox(nonce: nonce, ciphertext: record.dropLast(16), tag: record.suffix(16)),
      let padded = try? AES.GCM.open(box, using: derive("aes128gcm", 16)),
      let end = padded.lastIndex(where: { $0 != 0 }), padded[end] == 2
    else { return nil }
    return Array(padded[..<end])
  }
}

/// The simulator's push service as phones use it. It stands for a UnifiedPush distributor or a browser
/// vendor's service.
package struct PushService: Sendable {
  private let service: JSONService
  private let path: String?
  var url: String { service.url }

  /// - Parameter path: where its endpoints are: `/push`, or as at Google `/fcm/send` or `/wp`; nil: as it likes.
  package init(url: String, path: String? = nil, client: HTTPClient) {
    service = JSONService(url: url, client: client)
    self.path = path
  }

  /// Subscribes for messages that are signed with a bouncer's VAPID key.
  ///
  /// - Parameter bouncer: its address.
  package func subscribe(for bouncer: String) async throws -> PushSubscription {
    let services = JSONService(url: "\(bouncer)/api/v1/zulip-services", client: service.client)
    guard let key = try await services.call(.GET, "webpush/vapid")["vapid"]?.string else {
      throw DemoError("\(bouncer) tells no VAPID key")
    }
    return try await subscribe(key: key)
  }

  /// Subscribes for messages that are signed with a key, given as the public key in base64url.
  func subscribe(key: String) async throws -> PushSubscription {
    var request: JSON.Object = ["vapid": .string(key)]
    request["path"] = path.map(JSON.string)
    let answer = try await service.call(.POST, "subscriptions", .json(.object(request)))
    guard let endpoint = answer["endpoint"]?.string else {
      throw DemoError("the push service gave no endpoint")
    }
    return PushSubscription(endpoint: endpoint)
  }

  /// Ends a subscription. Later messages to it are refused.
  func delete(_ subscription: PushSubscription) async throws {
    try await service.call(.DELETE, "subscriptions/\(subscription.id)")
  }

  /// The messages after `seen`, still encrypted; none if the subscription has ended.
  ///
  /// - Parameter wait: how long to wait for the first, in seconds.
  func messages(for subscription: PushSubscription, after seen: inout Int64, wait: Int = 5)
    async throws -> [JSON]
  {
    do {
      let answer = try await service.call(
        .GET, "subscriptions/\(subscription.id)/messages?since=\(seen)&wait=\(wait)", timeout: .seconds(30))
      seen = answer["next"]?.integer ?? seen
      return answer["messages"]?.elements ?? []
    } catch let refusal as JSONService.Refusal where refusal.status == .gone { return [] }
  }
}
