import Sealing
import Testing

@testable import Providers

@Suite struct PushTokenTests {
  @Test(arguments: ["c0ffee", "C0FFEE", "c0 ff\tee", " c0ff ", "00"])
  func `An APNs token is pairs of hex digits, with white space only between pairs`(text: String) throws {
    #expect(try PushToken(text, kind: .apns).text == text)
  }

  @Test(arguments: ["c0ffe", "c0ffeg", "c 0", "c0ff\u{e9}", "0x00"])
  func `What is not pairs of hex digits is no APNs token`(text: String) {
    #expect(throws: PushToken.Malformed.notHexadecimal) { try PushToken(text, kind: .apns) }
  }

  @Test(arguments: PushToken.Kind.allCases) func `A token has 1 to 4096 bytes`(kind: PushToken.Kind) throws {
    #expect(throws: PushToken.Malformed.length) { try PushToken("", kind: kind) }
    #expect(throws: PushToken.Malformed.length) {
      try PushToken(String(repeating: "a", count: 4097), kind: kind)
    }
    #expect(try PushToken(String(repeating: "a", count: 4096), kind: kind).text.utf8.count == 4096)
  }

  @Test func `Spellings of an APNs token are one token, those of an FCM token are not`() throws {
    #expect(try PushToken("C0FFEE", kind: .apns).canonical == "c0ffee")
    #expect(try PushToken("C0FFEE", kind: .fcm).canonical == "C0FFEE")
    #expect(try PushToken("C0FFEE", kind: .apns).id != PushToken("c0ffee", kind: .apns).id)
  }

  @Test func `A log shows the first 8 hex digits of a token's SHA-256`() throws {
    // The token id of "c0ffee" is fb 02 88 87 ...
    #expect(try PushToken("c0ffee", kind: .apns).fingerprint == "fb028887")
  }

  @Test func `A token registered as one of FCM may be a subscription, which is a kind of its own`() throws {
    let token = try PushToken("webpush:e30", kind: .fcm)
    #expect(token == .webPush("webpush:e30"))
    #expect(token.kind == .fcm)
    #expect(token.provider == .webPush)
    #expect(!token.isPlausible)
  }
}
