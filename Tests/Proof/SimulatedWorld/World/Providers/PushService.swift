import Crypto
import Foundation
import HTTP
import HTTPClient
import NIOCore
import NIOHPACK
import Providers

/// A push service as phones without Google's services use it: what the world knows of subscriptions beyond what a
/// ``Provider`` knows of tokens. It checks each request's signature; the phone opens each message with its own keys.
struct PushService {
  static let host = "push.example.net"
  /// Made once for all worlds; phones differ in the secret that they share with their senders.
  static let key = P256.KeyAgreement.PrivateKey()
  /// Ours, with which requests are signed.
  static let vapid = VAPIDKey()

  private struct Subscription {
    let token: String
    let secret: [UInt8]
  }

  /// A request, as a push service reads it.
  struct Request {
    var path: String
    var authorization: String
    let body: [UInt8]

    init(_ request: ProviderRequest) {
      path = request.headers.first(name: ":path") ?? ""
      authorization = request.headers.first(name: "authorization") ?? ""
      body = Array(buffer: request.body())
    }
  }

  /// By path of the endpoint.
  private var subscriptions: [String: Subscription] = [:]

  /// Returns the push token of a new subscription.
  mutating func subscribe(_ name: String) -> String {
    let path = "/\(World.secret)-\(name)"
    let secret = Array(SHA256.hash(data: Data(path.utf8)).prefix(16))
    let members = """
      {"auth":"\(base64URL(secret))","endpoint":"https://\(Self.host)\(path)",\
      "p256dh":"\(base64URL(Array(Self.key.publicKey.x963Representation)))"}
      """
    let token = "webpush:" + base64URL(Array(members.utf8))
    subscriptions[path] = Subscription(token: token, secret: secret)
    return token
  }

  private func base64URL(_ bytes: [UInt8]) -> String {
    Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing(
      "=", with: "")
  }

  /// The endpoint of another subscription; nil: there is none.
  func otherPath(than path: String) -> String? { subscriptions.keys.sorted().first { $0 != path } }

  /// A request as its phone gets it.
  func received(_ request: Request) -> ReceivedPush {
    ReceivedPush(to: subscriptions[request.path]?.token ?? "", body: opened(request) ?? "")
  }

  /// The message, opened with the keys of the phone that gets it (RFC 8291); nil if they do not open it.
  private func opened(_ request: Request) -> String? {
    let body = request.body
    guard let subscription = subscriptions[request.path], body.count > 103, body[20] == 65,
      let sender = try? P256.KeyAgreement.PublicKey(x963Representation: body[21..<86]),
      let shared = try? Self.key.sharedSecretFromKeyAgreement(with: sender)
    else { return nil }
    let input = shared.hkdfDerivedSymmetricKey(
      using: SHA256.self, salt: subscription.secret,
      sharedInfo: Array("WebPush: info\0".utf8) + Self.key.publicKey.x963Representation + body[21..<86],
      outputByteCount: 32)
    func derive(_ info: String, _ count: Int) -> SymmetricKey {
      HKDF<SHA256>.deriveKey(
        inputKeyMaterial: input, salt: body[..<16], info: Array("Content-Encoding: \(info)\0".utf8),
        outputByteCount: count)
    }
    guard let nonce = try? AES.GCM.Nonce(data: derive("nonce", 12).withUnsafeBytes { Array($0) }),
      let box = try? AES.GCM.SealedBox(
        nonce: nonce, ciphertext: body[86...].dropLast(16), tag: body.suffix(16)),
      let padded = try? AES.GCM.open(box, using: derive("aes128gcm", 16)),
      let end = padded.lastIndex(where: { $0 != 0 })
    else { return nil }
    return String(decoding: padded[..<end], as: UTF8.self)
  }

  /// Whether a request is signed with our key, for this service (RFC 8292).
  func isSigned(_ request: Request) -> Bool {
    let shown = request.authorization
    guard let token = shown.between("t=", ",") ?? shown.between("t=", " "),
      shown.contains(Self.vapid.publicKey)
    else { return false }
    let parts = token.split(separator: ".").map(String.init)
    guard parts.count == 3, let claims = ReceivedPush.decoded(parts[1]),
      let signature = ReceivedPush.decoded(parts[2]),
      let pair = try? P256.Signing.PrivateKey(rawRepresentation: Self.vapid.rawRepresentation),
      let signed = try? P256.Signing.ECDSASignature(rawRepresentation: signature)
    else { return false }
    let claim = #""aud":"https://\#(Self.host)""#
    return pair.publicKey.isValidSignature(signed, for: Data("\(parts[0]).\(parts[1])".utf8))
      && String(decoding: claims, as: UTF8.self).replacing(#"\/"#, with: "/").contains(claim)
  }
}
