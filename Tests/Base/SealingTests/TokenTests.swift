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
}
