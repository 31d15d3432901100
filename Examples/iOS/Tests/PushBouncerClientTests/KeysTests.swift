import Foundation
import PushBouncerSealing
import Testing

@testable import PushBouncerClient

private func bytes(_ text: String) throws -> Data { try #require(Base64URL.decode(text)) }

@Suite("The keys of an app")
struct KeysTests {
  /// RFC 8291 section 5 and appendix A.
  private static func standard() throws -> (WebPushKeys, Data) {
    (
      WebPushKeys(
        privateKey: try bytes("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"),
        authentication: try bytes("BTBZMqHH6r4Tts7J_aSIgg")),
      try bytes(
        """
        DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBr\
        u3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN
        """)
    )
  }

  @Test func `open the example of RFC 8291`() throws {
    let (keys, body) = try Self.standard()
    let text = try keys.open(EncryptedMessage(body, encoding: "aes128gcm"))
    #expect(String(decoding: text, as: UTF8.self) == "When I grow up, I want to be a watermelon")
    #expect(
      keys.p256dh == "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
    )
    #expect(keys.auth == "BTBZMqHH6r4Tts7J_aSIgg")
  }

  @Test func `open the example of the draft before it`() throws {
    let keys = WebPushKeys(
      privateKey: try bytes("9FWl15_QUQAWDaD3k3l50ZBZQJ4au27F1V4F0uLSD_M"),
      authentication: try bytes("R29vIGdvbyBnJyBqb29iIQ"))
    let sender = "BNoRDbb84JGm8g5Z5CFxurSqsXWJ11ItfXEWYVLE85Y7CYkDjXsIEc4aqxYaQ1G8BqkXCJ6DPpDrWtdWj_mugHU"
    let body = try bytes("6nqAQUME8hNqw5J3kl8cpVVJylXKYqZOeseZG8UueKpA")
    let text = try keys.open(
      EncryptedMessage(body, encoding: "aesgcm", sender: bytes(sender), salt: bytes("lngarbyKfMoi9Z75xYXmkg"))
    )
    #expect(String(decoding: text, as: UTF8.self) == "I am the walrus")
    #expect(throws: PushError.unreadable) {
      try keys.open(
        EncryptedMessage(
          body, encoding: "aesgcm", sender: bytes(sender), salt: bytes("mngarbyKfMoi9Z75xYXmkg")))
    }
  }

  @Test func `open nothing that was changed, cut or is another's`() throws {
    let (keys, body) = try Self.standard()
    for place in body.indices {
      var changed = body
      changed[place] ^= 1
      // The record's size may be another one, as long as the record is no longer.
      guard !(16..<20).contains(place) else { continue }
      #expect(throws: PushError.unreadable) {
        try keys.open(EncryptedMessage(changed, encoding: "aes128gcm"))
      }
    }
    for length in body.indices.dropFirst() {
      #expect(throws: PushError.unreadable) {
        try keys.open(EncryptedMessage(body.prefix(length), encoding: "aes128gcm"))
      }
      #expect(throws: PushError.unreadable) {
        try keys.open(
          EncryptedMessage(
            body.prefix(length), encoding: "aesgcm", sender: body[21..<86], salt: body.prefix(16)))
      }
    }
    var small = body
    small.replaceSubrange(16..<20, with: [0, 0, 0, 57])
    #expect(throws: PushError.unreadable) { try keys.open(EncryptedMessage(small, encoding: "aes128gcm")) }
    #expect(throws: PushError.unreadable) {
      try WebPushKeys().open(EncryptedMessage(body, encoding: "aes128gcm"))
    }
  }

  /// Records for the keys of RFC 8291's example, made with another library: text and padding, and what they open to.
  @Test(arguments: [
    // "text", 2, and three zeros; 2 alone; 1 in the place of 2; zeros alone.
    ("aes128gcm", "Qgrcy7y7xNGMwgKJrNb9C7h2ktEzp0-K", "text"), ("aes128gcm", "NDQ9Qb5SwqzR-K7s6veI85o", ""),
    ("aes128gcm", "Qgrcy79L3p-a8adOSVJSeq7XFl_2", nil), ("aes128gcm", "Nm-kv1oiUqzXvReeNXfkYTDUTXM", nil),
    // 3, three zeros, and "text"; 0 alone; 5, and "text"; 65,535, and nothing; 2, and not two zeros.
    ("aesgcm", "2z7cXWFOj8lgbI-H5oa6hrPV0YEBzA-xyQ", "text"), ("aesgcm", "2z3vPv37LFRZWAzyHH_TUjhL", ""),
    ("aesgcm", "2zioOBlO1Yd0f_Sj8jzj5wRfgDKEYw", nil), ("aesgcm", "JMJUFa59mmGFgsCiNLQdUr16", nil),
    ("aesgcm", "2z_cXBVfksXE2XCJjlJm7x7ljkRZrwB7", nil),
  ])
  func `take padding as it has to be`(encoding: String, record: String, text: String?) throws {
    let keys = try Self.standard().0
    let salt = Data(0..<16)
    let sender = try bytes(
      "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8")
    var body = try bytes(record)
    if encoding == "aes128gcm" { body = salt + [0, 0, 16, 0, 65] + sender + body }
    let message = try EncryptedMessage(body, encoding: encoding, sender: sender, salt: salt)
    if let text {
      #expect(try keys.open(message) == Data(text.utf8))
    } else {
      #expect(throws: PushError.unreadable) { try keys.open(message) }
    }
  }

  @Test func `are stored and read, and not told by accident`() throws {
    let keys = WebPushKeys()
    #expect(try JSONDecoder().decode(WebPushKeys.self, from: JSONEncoder().encode(keys)) == keys)
    #expect("\(keys)" == "WebPushKeys(\(keys.p256dh))")
    #expect(WebPushKeys() != keys)
  }
}

@Suite("Zulip's notifications")
struct ZulipTests {
  /// Its text is MTaUDJDMWypQ1WufZ1NRTHSSvgYtXh1qVNSjN3aBiEFt.
  private static let key = Data(#"{"id":7,"key":"NpQMkMxbKlDVa59nU1FMdJK+Bi1eHWpU1KM3doGIQW0="}"#.utf8)
  private static let notification = """
    AAECAwQFBgcICQoLDA0ODxAREhMUFRYXhn2OaMIdeNrRPRVXXK3+IbJishlr8evOpc2ZEYvDYkEOlF3m8cZK85BDAE1Np0I0+HlDmA0URVjx5hsq\
    8wGZtKQn+2XC5azPlvBWOdx4eS5zs+RKG1nxA72ALguG+Lnki6knUxTxiftyj3hK1HqpkyMJfv9IV36LxDj7+kM=
    """

  @Test func `are opened with the app's key, and with no other`() throws {
    let key = try JSONDecoder().decode(ZulipPushKey.self, from: Self.key)
    #expect(
      String(decoding: try key.open(Self.notification), as: UTF8.self) == """
        {"realm_url":"http://zulip.testserver","realm_name":"Zulip Dev","user_id":10,"type":"test","time":1754577820}
        """)
    #expect(key.text == "MTaUDJDMWypQ1WufZ1NRTHSSvgYtXh1qVNSjN3aBiEFt")
    #expect("\(key)" == "ZulipPushKey(7)")
    #expect(throws: PushError.unreadable) { try ZulipPushKey().open(Self.notification) }
    let sealed = try #require(Data(base64Encoded: Self.notification))
    for place in sealed.indices {
      var changed = sealed
      changed[place] ^= 1
      #expect(throws: PushError.unreadable) { try key.open(changed.base64EncodedString()) }
    }
    for text in [
      "", "A", "AAAA", "!", sealed.prefix(39).base64EncodedString(), String(repeating: "A", count: 8196),
    ] {
      #expect(throws: PushError.unreadable) { try key.open(text) }
    }
  }

  @Test func `a registration names the token by its hash, and seals it`() throws {
    let publicKey = "j0DFrbaPJWJK5bIU6nZ6bslNgp09e14a0bpvPiE4KF8="
    let token = Registration.apns(token: "c0ffee", appID: "example.app")
    let key = try JSONDecoder().decode(ZulipPushKey.self, from: Self.key)
    let fields = try key.fields(for: token, to: publicKey)
    #expect(fields["token_id"] == "+wKIhyAx/Eg=")
    #expect(fields["push_key_id"] == "7")
    #expect(fields["token_kind"] == "apns")
    let sealed = try #require(fields["encrypted_push_registration"].flatMap { Data(base64Encoded: $0) })
    let plain = #"{"token":"c0ffee","token_kind":"apns","timestamp":1754385290,"ios_app_id":"example.app"}"#
    #expect(sealed.count == 32 + 16 + plain.utf8.count)
    for wrong in ["", "AAAA", "A"] {
      #expect(throws: PushError.malformed("the bouncer's public key")) { try token.sealed(to: wrong) }
    }
  }
}
