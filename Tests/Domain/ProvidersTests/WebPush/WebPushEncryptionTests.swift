import Crypto
import Foundation
import NIOCore
import TestSupport
import Testing

@testable import Providers

@Suite("Encrypting Web Push")
struct WebPushEncryptionTests {
  @Test func `The example of RFC 8291 comes out byte for byte`() throws {
    let subscription = try WebPushSubscription(
      endpoint: "https://push.example.net/push/JzLQ3raZJfFBR0aqvOMsLrt54w4rJUsV",
      p256dh: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
      auth: "BTBZMqHH6r4Tts7J_aSIgg")
    let sender = try P256.KeyAgreement.PrivateKey(
      rawRepresentation: #require(Base64URL.decode("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw")))
    let body = try WebPushEncryption.encrypt(
      ByteBuffer(string: "When I grow up, I want to be a watermelon"), for: subscription, sender: sender,
      salt: #require(Base64URL.decode("DGv6ra1nlYgDCS1FRnbzlw")))
    #expect(
      WebPushPhone.base64URL(Data(body.readableBytesView)) == """
        DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBr\
        u3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN
        """)
  }

  @Test(arguments: [0, 1, 1000, WebPushMessage.maximumBody])
  func `A phone opens what was encrypted for it, and 4096 bytes hold the longest`(length: Int) throws {
    let phone = WebPushPhone()
    let text = String(repeating: "ä", count: length / 2) + String(repeating: "a", count: length % 2)
    let body = try WebPushEncryption.encrypt(
      ByteBuffer(string: text), for: try phone.subscription("https://push.example.net/1"))
    #expect(body.readableBytes == length + 103)
    #expect(body.readableBytes <= 4096)
    #expect(try phone.open(body) == text)
    #expect(throws: (any Error).self) { try WebPushPhone().open(body) }
  }

  @Test func `The same message is never encrypted to the same bytes`() throws {
    let subscription = try WebPushPhone().subscription("https://push.example.net/1")
    let bodies = try (0..<20).map { _ in
      try WebPushEncryption.encrypt(ByteBuffer(string: "x"), for: subscription)
    }
    // Neither the salt nor the sender's key is used twice.
    #expect(Set(bodies.map { Data($0.readableBytesView.prefix(16)) }).count == 20)
    #expect(Set(bodies.map { Data($0.readableBytesView[21..<86]) }).count == 20)
  }
}

@Suite("A VAPID token")
struct VAPIDTokenTests {
  private static let now = Date(timeIntervalSince1970: 1_800_000_000.7)

  private struct Claims: Decodable, Equatable {
    var aud: String
    var exp: Int
    var sub: String
  }

  @Test func `names the origin, ends within a day and is signed by the key that it shows`() throws {
    let webPush = PushProviders.Configuration.WebPush(key: VAPIDKey(), contact: "mailto:\"a\"@example.org")
    let token = try VAPIDToken.make(for: "https://push.example.net:8443", by: webPush, now: Self.now).get()
    let parts = try #require(
      token.authorization.wholeMatch(of: /vapid t=(([^.]+)\.([^.]+))\.([^.,]+), k=(.+)/))
    #expect(parts.5 == webPush.key.publicKey)
    let point = try #require(Base64URL.decode(parts.5))
    #expect(point.count == 65)
    let key = try P256.Signing.PublicKey(x963Representation: point)
    let signature = try P256.Signing.ECDSASignature(
      rawRepresentation: #require(Base64URL.decode(parts.4)))
    #expect(key.isValidSignature(signature, for: Data(parts.1.utf8)))
    let header = try JSONDecoder().decode(
      [String: String].self, from: Data(try #require(Base64URL.decode(parts.2))))
    #expect(header == ["typ": "JWT", "alg": "ES256"])
    let claims = try JSONDecoder().decode(Claims.self, from: Data(try #require(Base64URL.decode(parts.3))))
    #expect(
      claims
        == Claims(
          aud: "https://push.example.net:8443", exp: 1_800_000_000 + 12 * 3600,
          sub: "mailto:\"a\"@example.org"))
    // It serves for hours, and never to its last moment.
    #expect(token.renewAt >= Self.now + 3600)
    #expect(token.expiresAt < Self.now + 12 * 3600)
  }

  @Test func `is of the key that was kept`() throws {
    let key = VAPIDKey()
    #expect(try VAPIDKey(rawRepresentation: key.rawRepresentation).publicKey == key.publicKey)
    #expect(key.publicKey.utf8.count == 87)
    #expect(throws: (any Error).self) { try VAPIDKey(rawRepresentation: Data(count: 32)) }
  }
}
