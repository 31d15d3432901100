import Testing

@testable import Sealing

@Suite struct TokenTests {
  @Test(
    arguments: [
      ("c0ffee", "+wKIhyAx/Eg=", -359_574_906_294_109_112),
      ("C0FFEE", "jS5/TZMf7/8=", -8_273_535_494_275_469_313),
      ("abcdef", "vvV+x/U6bUA=", -4_686_700_439_931_294_400),
      ("android-tokenaz", "iGFeKNj3ngQ=", -8_619_504_682_278_609_404),
      ("android-token", "RjY0jpbVz/o=", 5_059_289_018_417_926_138),
      ("111222", "ksfXG5XcZUA=", -7_870_085_310_328_314_560),
    ] as [(String, String, Int64)])
  func `A token's id is the one the specification gives`(token: String, base64: String, storage: Int64) {
    let id = TokenID(token: token)
    #expect(id.base64 == base64)
    #expect(id.storage == storage)
    #expect(TokenID(base64: base64) == id)
    #expect(TokenID(storage: storage).base64 == base64)
  }

  @Test(arguments: [
    "", "192057", "+wKIhyAx/Eg", "+wKIhyAx/Eg==", "-wKIhyAx_Eg=", "+wKIhyAx/Eh=", " wKIhyAx/Eg=",
    "AAAAAAAAAAAA",
  ])
  func `What is not the canonical base64 of 8 bytes is no token id`(base64: String) {
    #expect(TokenID(base64: base64) == nil)
  }

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
}
