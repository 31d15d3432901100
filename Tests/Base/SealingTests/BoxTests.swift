import Crypto
import Testing

@testable import Sealing

@Suite struct BoxTests {
  private let privateKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
  private let publicKey = "j0DFrbaPJWJK5bIU6nZ6bslNgp09e14a0bpvPiE4KF8="
  private let sealed = """
    XrHb4olAOsvUHBpHjLCV2FnABFFasjkjScoS1Dl6aSUzxgXdRxhWOuse012kI3UkYIi9scXp2pr6DHJNZhlDbIr2bNaefDKTOjx/BnuXB+YZ\
    Q2XmI5rbcjLBhjRkvMbTUAUW4zB9psmUP5NQkTlKcswgsS7lN+Vp8BSZv39W0Y3zHz6BoLJ3cg==
    """
  private let registration =
    #"{"token":"c0ffee","token_kind":"apns","timestamp":1754385290,"ios_app_id":"example.app"}"#

  private func keyring() throws -> BouncerKeyring {
    let pair = try #require(BouncerKeyPair(privateKey: privateKey))
    return BouncerKeyring([.init(pair: pair, state: .active)])
  }

  @Test func `The specification's registration opens with the key it names`() throws {
    #expect(try #require(BouncerKeyPair(privateKey: privateKey)).publicKeyBase64 == publicKey)
    let opened = try keyring().open(sealed, publicKey: publicKey)
    #expect(String(decoding: opened, as: UTF8.self) == registration)
  }

  @Test func `Line breaks in the base64 of a registration do not matter`() throws {
    let wrapped = sealed.prefix(76) + "\r\n" + sealed.dropFirst(76)
    #expect(try keyring().open(String(wrapped), publicKey: publicKey).count == registration.utf8.count)
  }

  @Test func `A key is known only by its canonical spelling`() throws {
    let keyring = try keyring()
    // The same 32 bytes, with other unused bits in the last character.
    let alias = publicKey.replacingLast("8=", with: "9=")
    for other in [alias, publicKey + " ", "", BouncerKeyPair().publicKeyBase64] {
      #expect(throws: BouncerKeyring.OpeningError.unknownPublicKey) {
        try keyring.open(sealed, publicKey: other)
      }
    }
  }

  @Test func `What is cut, altered or sealed to another key does not open`() throws {
    let keyring = try keyring()
    let bytes = try #require(Base64.decodeStrictly(sealed))
    var broken = ["", "A", "****", Base64.encode(bytes.prefix(47)), Base64.encode(bytes.dropLast())]
    for index in [0, 31, 32, 47, 48, bytes.count - 1] {
      var altered = bytes
      altered[index] ^= 1
      broken.append(Base64.encode(altered))
    }
    let stranger = try #require(SealedBox.seal(Array(registration.utf8), to: BouncerKeyPair().publicKey))
    broken.append(Base64.encode(stranger))
    for text in broken {
      #expect(throws: BouncerKeyring.OpeningError.notOpened) { try keyring.open(text, publicKey: publicKey) }
    }
  }

  @Test func `A retired key still opens`() throws {
    let pair = BouncerKeyPair()
    let keyring = BouncerKeyring([.init(pair: pair, state: .retired)])
    let box = try #require(SealedBox.seal([1, 2, 3], to: pair.publicKey))
    #expect(try keyring.open(Base64.encode(box), publicKey: pair.publicKeyBase64) == [1, 2, 3])
  }

  @Test func `A private key in base64 gives the pair back`() throws {
    let pair = BouncerKeyPair()
    let again = try #require(BouncerKeyPair(privateKey: pair.privateKeyBase64))
    #expect(again.publicKey == pair.publicKey)
    #expect(BouncerKeyPair(privateKey: "AAAA") == nil)
  }

  @Test func `The specification's notification is sealed and opens`() throws {
    let key = try #require(PushKey(base64: "MTaUDJDMWypQ1WufZ1NRTHSSvgYtXh1qVNSjN3aBiEFt"))
    let bytes = try #require(Base64.decodeStrictly(key.base64))
    let plaintext =
      #"{"realm_url":"http://zulip.testserver","realm_name":"Zulip Dev","user_id":10,"type":"test","time":1754577820}"#
    let expected = """
      AAECAwQFBgcICQoLDA0ODxAREhMUFRYXhn2OaMIdeNrRPRVXXK3+IbJishlr8evOpc2ZEYvDYkEOlF3m8cZK85BDAE1Np0I0+HlDmA0URVjx5\
      hsq8wGZtKQn+2XC5azPlvBWOdx4eS5zs+RKG1nxA72ALguG+Lnki6knUxTxiftyj3hK1HqpkyMJfv9IV36LxDj7+kM=
      """
    let sealed = SecretBox.seal(
      Array(plaintext.utf8), key: SymmetricKey(data: bytes.dropFirst()), nonce: Array(0..<24))
    #expect(Base64.encode(sealed) == expected)
    #expect(key.open(sealed) == Array(plaintext.utf8))
  }

  @Test func `Every sealing of a notification has a nonce of its own and opens only whole`() {
    let key = PushKey.generate()
    let first = key.seal([])
    let second = key.seal([])
    #expect(first.count == SecretBox.overhead)
    #expect(first.prefix(24) != second.prefix(24))
    #expect(key.open(first) == [])
    #expect(PushKey.generate().open(first) == nil)
    for index in first.indices {
      var altered = first
      altered[index] ^= 0x80
      #expect(key.open(altered) == nil)
    }
    #expect(key.open(Array(first.dropLast())) == nil)
  }

  @Test(arguments: [
    ("MY+paNlyduYJRQFNZva8w7Gv3PkBua9kIj581F9Vr301", true),
    ("MTaUDJDMWypQ1WufZ1NRTHSSvgYtXh1qVNSjN3aBiEFt", true),
    ("MDaUDJDMWypQ1WufZ1NRTHSSvgYtXh1qVNSjN3aBiEFt", false),
    ("MTaUDJDMWypQ1WufZ1NRTHSSvgYtXh1qVNSjN3aBiA==", false),
    ("MTaUDJDMWypQ1WufZ1NRTHSSvgYtXh1qVNSjN3aBiEFtAAAA", false),
    ("MTaUDJDMWypQ1WufZ1NRTHSSvgYtXh1qVNSjN3aBiEF", false),
    ("MTaUDJDMWypQ1WufZ1NRTHSSvgYtXh1q\nVNSjN3aBiEFt", false),
    ("", false),
  ])
  func `A push key is the canonical base64 of 33 bytes of which the first is 0x31`(
    base64: String, isValid: Bool
  ) {
    #expect((PushKey(base64: base64) != nil) == isValid)
    if isValid { #expect(PushKey(base64: base64)?.base64 == base64) }
  }
}

extension String {
  fileprivate func replacingLast(_ suffix: String, with other: String) -> String {
    precondition(hasSuffix(suffix))
    return dropLast(suffix.count) + other
  }
}
