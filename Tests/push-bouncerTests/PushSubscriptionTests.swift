import Crypto
import Foundation
import HTTP
import Sealing
import Testing

@testable import Demo

/// What a phone without Google opens.
@Suite struct PushSubscriptionTests {
  /// RFC 8291, section 5 and appendix A.
  private enum Example {
    static let plaintext = "When I grow up, I want to be a watermelon"
    static let privateKey = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"
    static let publicKey =
      "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
    static let secret = "BTBZMqHH6r4Tts7J_aSIgg"
    static let body =
      "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8w"
      + "EqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
  }

  private static func decode(_ text: String) throws -> [UInt8] {
    let standard = text.replacing("-", with: "+").replacing("_", with: "/")
    return try #require(
      Base64.decodeStrictly(standard + String(repeating: "=", count: (4 - standard.count % 4) % 4)))
  }

  private static func subscription(secret: String = Example.secret) throws -> PushSubscription {
    PushSubscription(
      endpoint: "https://push.example.net/push/JzLQ3raZJfFBR0aqvOMsLrt54w4rJUsV",
      key: try P256.KeyAgreement.PrivateKey(rawRepresentation: decode(Example.privateKey)),
      secret: try decode(secret))
  }

  @Test func `The example of RFC 8291 opens`() throws {
    let subscription = try Self.subscription()
    #expect(subscription.p256dh == Example.publicKey && subscription.auth == Example.secret)
    let opened = try #require(subscription.open(try Self.decode(Example.body)))
    #expect(String(decoding: opened, as: UTF8.self) == Example.plaintext)
  }

  @Test func `What was changed on the way or is for another does not open`() throws {
    let body = try Self.decode(Example.body)
    let subscription = try Self.subscription()
    for index in body.indices where !(16..<20).contains(index) {
      var changed = body
      changed[index] ^= 1
      #expect(subscription.open(changed) == nil, "byte \(index)")
    }
    for length in 0..<body.count { #expect(subscription.open(body.prefix(length)) == nil) }
    #expect(try Self.subscription(secret: "AAAAAAAAAAAAAAAAAAAAAA").open(body) == nil)
    #expect(PushSubscription(endpoint: subscription.endpoint).open(body) == nil)
    // A record size that the record does not fit in (RFC 8291 4).
    #expect(subscription.open(Array(body[..<16]) + [0, 0, 0, 18] + body[20...]) == nil)
  }

  @Test func `Its token holds what the bouncer needs`() throws {
    let token = VirtualPhone(try Self.subscription()).token
    #expect(token.hasPrefix("webpush:"))
    let fields = try JSON.parse(try Self.decode(String(token.dropFirst(8))))
    #expect(
      fields == [
        "endpoint": "https://push.example.net/push/JzLQ3raZJfFBR0aqvOMsLrt54w4rJUsV",
        "p256dh": .string(Example.publicKey), "auth": .string(Example.secret),
      ])
  }
}
