import CryptoExtras
import Foundation
import Testing

@testable import Sealing

@Suite struct RSATests {
  private static let pair = RSAPrivateKey.generate()
  private var pair: RSAPrivateKey { Self.pair }
  private var key: RSAPublicKey { pair.publicKey }
  private let message = Array("message".utf8)

  @Test func `What a key signs only that key verifies, and only that`() {
    let signature = pair.sign(message)
    #expect(signature.count == 256 && key.ciphertextBytes == 256 && key.bits == 2048)
    #expect(key.verifies(signature, of: message))
    #expect(pair.sign(message) == signature)
    #expect(!key.verifies(signature, of: message + [0]))
    #expect(!RSAPrivateKey.generate().publicKey.verifies(signature, of: message))
    for bad in [[], Array(signature.dropLast()), signature + [0], [UInt8](repeating: 255, count: 256)] {
      #expect(!key.verifies(bad, of: message))
    }
    var altered = signature
    altered[100] ^= 1
    #expect(!key.verifies(altered, of: message))
  }

  @Test func `A digest is 64 bytes and is not hashed again`() throws {
    let digest = [UInt8](repeating: 5, count: 64)
    let signature = try #require(pair.sign(digest: digest))
    #expect(key.verifies(signature, digest: digest))
    #expect(!key.verifies(signature, of: digest))
    #expect(!key.verifies(signature, digest: digest.dropLast()))
    #expect(!key.verifies(signature, digest: digest + [5]))
    #expect(pair.sign(digest: digest.dropLast()) == nil)
  }

  @Test(arguments: [(RSAPadding.oaep, 214), (.pkcs1, 245)])
  func `There is room for the key's size less the padding`(padding: RSAPadding, limit: Int) throws {
    #expect(key.maximumPlaintext(padding) == limit)
    for count in [0, 1, limit] {
      let plaintext = [UInt8](repeating: 7, count: count)
      let ciphertext = try key.encrypt(plaintext, padding: padding)
      #expect(ciphertext.count == 256)
      #expect(pair.decrypt(ciphertext, padding: padding) == plaintext)
      #expect(try key.encrypt(plaintext, padding: padding) != ciphertext)
    }
    let tooLong = [UInt8](repeating: 7, count: limit + 1)
    #expect(throws: RSAPublicKey.PlaintextTooLong.self) { try key.encrypt(tooLong, padding: padding) }
  }

  @Test func `What was encrypted with one padding does not open with the other`() throws {
    let oaep = try key.encrypt(message, padding: .oaep)
    #expect(pair.decrypt(oaep, padding: .pkcs1) != message)
    let pkcs1 = try key.encrypt(message, padding: .pkcs1)
    #expect(pair.decrypt(pkcs1, padding: .oaep) == nil)
    #expect(pair.decrypt([], padding: .oaep) == nil)
  }

  @Test func `A PEM may have any line breaks`() throws {
    let pem = key.pem
    #expect(pem.hasPrefix("-----BEGIN PUBLIC KEY-----\n") && pem.hasSuffix("\n-----END PUBLIC KEY-----\n"))
    #expect(pem.utf8.count == 451)
    let variants = [
      pem, String(pem.dropLast()), pem.replacingOccurrences(of: "\n", with: "\r\n"),
      pem.replacingOccurrences(of: "\n", with: ""), "\n \(pem)\n\n",
      pem.replacingOccurrences(of: "\n", with: "\n\n"),
    ]
    for variant in variants {
      let read = try RSAPublicKey(pem: variant)
      #expect(read == key)
      #expect(read.pem == pem)
    }
    #expect(try RSAPublicKey(der: key.der) == key)
    #expect(try RSAPrivateKey(pem: pair.pem).publicKey == key)
    #expect(pair.pem.hasPrefix("-----BEGIN PRIVATE KEY-----\n"))
  }

  @Test(arguments: ["AQAB": true, "Aw==": false, "AQAD": false, "AQEAAQ==": false, "Af////8=": false])
  func `An exponent that makes signatures expensive is refused, as is any but the usual one`(
    exponent: String, isTaken: Bool
  ) throws {
    let bytes = try #require(Data(base64Encoded: exponent))
    let modulus = try _RSA.Signing.PublicKey(derRepresentation: key.der).getKeyPrimitives().modulus
    let pem = try _RSA.Signing.PublicKey(n: modulus, e: bytes).pemRepresentation
    #expect((try? RSAPublicKey(pem: pem)) == (isTaken ? key : nil))
  }

  @Test func `What is no public key in SPKI form is refused`() throws {
    let pem = key.pem
    let inner = try _RSA.Signing.PublicKey(derRepresentation: key.der)
    let certificate = pem.replacingOccurrences(of: "PUBLIC KEY", with: "CERTIFICATE")
    let ec = Keys.p256
    for bad in [
      "", "x", String(pem.dropLast(30)), String(pem.dropFirst()), pem + pem, pem + "x", certificate,
      "-----BEGIN PUBLIC KEY----------END PUBLIC KEY-----",
      "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----",
      inner.pkcs1PEMRepresentation, pair.pem, ec, pem.replacingOccurrences(of: "\n", with: "\u{85}"),
      "-----BEGIN PUBLIC KEY-----\n" + String(repeating: "A", count: 10_000) + "\n-----END PUBLIC KEY-----",
    ] {
      #expect(throws: RSAPublicKey.Malformed.self) { try RSAPublicKey(pem: bad) }
    }
    for bad in [[], key.der + [0], Array(key.der.dropLast()), [UInt8](inner.pkcs1DERRepresentation)] {
      #expect(throws: RSAPublicKey.Malformed.self) { try RSAPublicKey(der: bad) }
    }
    #expect(throws: RSAPublicKey.Malformed.self) { try RSAPrivateKey(pem: pem) }
  }

  @Test func `Keys have 2048 to 4096 bits`() throws {
    for pem in [Keys.bits1024, Keys.bits4224] {
      #expect(throws: RSAPublicKey.Malformed.self) { try RSAPublicKey(pem: pem) }
    }
    let read = try RSAPublicKey(pem: Keys.bits4096)
    #expect(read.bits == 4096 && read.ciphertextBytes == 512)
    #expect(read.maximumPlaintext(.oaep) == 470)
  }
}

private enum Keys {
  static let p256 = """
    -----BEGIN PUBLIC KEY-----
    MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEVs/o5+uQbTjL3chynL4wXgUg2R9
    q9UU8I5mEovUf86QZ7kOBIjJwqnzD1omageEHWwHdBO6B+dFabmdT9POxg==
    -----END PUBLIC KEY-----
    """

  static let bits1024 = """
    -----BEGIN PUBLIC KEY-----
    MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQC+9TJ9lZjzhdlLergVEyOR89WJ
    a6ZBFjei0g99twh9I3auJcWCdCBPriaVvY+oLZZGL4NyLcWn9r9tJssU7g/hQCzC
    rijBDM3TWAxFWyeZyUPr4tL7qwJaJXUA5WvJUkCfCqK1gqoR4Tj6LLG5qaoqsaiR
    6qHiqbfsSlOHTHjejwIDAQAB
    -----END PUBLIC KEY-----
    """

  static let bits4096 = """
    -----BEGIN PUBLIC KEY-----
    MIICIjANBgkqhkiG9w0BAQEFAAOCAg8AMIICCgKCAgEAuzVx/npNqzpWrZCCUGGU
    0dfF3RbEr62jIlPbOSWB+vKttFfg2jcRjvQ1qR+cX0x7TeCQslaJJ79HOCDLcL+Y
    CJ6cqrvd2eBfFiZ9kjOpDCgBlEFxFnRQksR0StjX27SBgQrF6M+y8/pDHnjKw7NB
    YblSgqbEBTK6PaBn2jsUdxLMVBVgBuQnomP66qUVufVm9WS5ZL6VZvByYuR6KxY7
    jBEwPAaJoK7qtzS9ksRPA8iRXMBFyKc+hcO5nAe21MtxLIm+0BMv7kuGB9oUS0nB
    zmxskhU5AVPuo/Lv49T6aH1ByEdzAiFrmkPDDmotB6MJMb91z7cJBf4Z3NHUE4cv
    lMylQaHR8bf/dpjkl2qyRgaXmN0YF0h099tqZtT+dxSV3gbSkelKDOopuqceKF75
    cOKLuaUtV6pb4WkSY4yztjC58ViY1lihgYveShWs3I2ZJFhp85+sz5701l5s6KNt
    Tt8FwU6T6zDFFa7NqVyZ6TPYa5hQsCeXE9Cujkft7tjR7urwBES28L164+5IGSAJ
    ZR7C/u7Ton2qRXU/hiJnTZekwMS3lj2/zMym8JXqK8OYYA3pmgLARI5HoQU1XYWz
    hixXDE4esz+7a6knEyLkdVW/M3i7k/Wxe4a9PSkvO0gyouX1FNHfhZk2qGb02n8A
    /H/h70qSQes6uqyQa+ltggsCAwEAAQ==
    -----END PUBLIC KEY-----
    """

  static let bits4224 = """
    -----BEGIN PUBLIC KEY-----
    MIICMjANBgkqhkiG9w0BAQEFAAOCAh8AMIICGgKCAhEAykNE9MegurV1wdiuQ3dJ
    E4fMtCVnwcPtqMqFNfUXBY3QPjB+WgWVgZ0k51EiE7hIBVysVfMLG0Luui6wsaD6
    34zNcd/3kubvUJUW1/DHiDu47hgDOU6Cyce8fV7Ki0gHsBGwKrT5pbjiQYH8y+KC
    QZNUBeRW1cQG8Jd3KITqjha1KYy0ytAQRsSeHsz7m++cveh6RFizAuLUTlwu9KSE
    qkc3neOovmRIByj/95Fyy8jaOJzr5Cu7cPrDRV5TVuL+p5O795V4XaGfLUYg7y7L
    qwOoyCF2WRvWo6caXTtedjfIPNmn4myRBnNeadPaX400p5WRgwvyU4a31WGlESna
    DusRtRkPzJeAvyxee2tlIikDmeY454DTCi0djcXoDh5OFXHc47ga9SCIJFIUjbuJ
    fVrmy8qn8CfO12GYhg4WPyloKs0w2/ZMHJzYKZGbOlfAbRZfBqo61OXRwhQ3RY2l
    Rq9PqVLi/M5ytdAXHJi5Xspd8YF3OcG/1ucfVXL1S6wHb7rEZQDaPt284ivVvoMe
    7witRoWKyHAxtsIYrGMgHqelVjvowo0Uud6ev3/rV2OL85+pZp9EO8DF8dfsr9m8
    8L0F3PJ6aKWg8aeKPrya1ghRGB+6BdgCMwc9ndxne4TbAByAxB0fosH5ucVOAQDL
    OzBqqlpUPKqG3Sgmyy7QPDbDAdfOwb8wR4o1pYU/zvmVAgMBAAE=
    -----END PUBLIC KEY-----
    """
}
