import Foundation
import Sealing
import Testing

/// Tests against vectors made with Nextcloud's own cryptography.
@Suite struct VectorsTests {
  private let vectors: Vectors
  private let user: RSAPublicKey

  init() throws {
    vectors = try .load()
    user = try RSAPublicKey(pem: vectors.userPublicKey)
  }

  @Test func `a registration is signed over the preimage and checked with its digest alone`() throws {
    let other = try RSAPublicKey(pem: vectors.otherUserPublicKey)
    let privateKey = try RSAPrivateKey(pem: vectors.userPrivateKey)
    #expect(vectors.devices.count == 3)
    for device in vectors.devices {
      let identifier = try #require(Base64.decodeStrictly(device.deviceIdentifier))
      let signature = try #require(Base64.decodeStrictly(device.deviceIdentifierSignature))
      #expect(user.verifies(signature, digest: identifier))
      #expect(user.verifies(signature, of: Array(device.preimage.utf8)))
      #expect(privateKey.sign(Array(device.preimage.utf8)) == signature)
      #expect(privateKey.sign(digest: identifier) == signature)
      #expect(!user.verifies(signature, of: identifier))
      #expect(!other.verifies(signature, digest: identifier))

      let others = try #require(Base64.decodeStrictly(device.otherUserSignatureOverSamePreimage))
      #expect(other.verifies(others, digest: identifier))
      #expect(!user.verifies(others, digest: identifier))
      let wrong = try #require(Base64.decodeStrictly(device.wrongSignatureOverIdentifier))
      #expect(!user.verifies(wrong, digest: identifier))
      #expect(user.verifies(wrong, of: Array(device.deviceIdentifier.utf8)))
    }
  }

  @Test func `a notification is signed over its ciphertext and opens with either padding`() throws {
    let device = try RSAPrivateKey(pem: vectors.devicePrivateKey)
    #expect(vectors.notifications.count == 7)
    for notification in vectors.notifications.values {
      let envelope = try #require(
        try JSONSerialization.jsonObject(with: Data(notification.envelopeJson.utf8)) as? [String: String])
      let subject = try #require(envelope["subject"].flatMap(Base64.decodeStrictly))
      let signature = try #require(envelope["signature"].flatMap(Base64.decodeStrictly))
      #expect(user.verifies(signature, of: subject))
      let wrong = try #require(Base64.decodeStrictly(notification.wrongSignatureOverSubject))
      #expect(!user.verifies(wrong, of: subject))
      let padding: RSAPadding = notification.padding == "OAEP" ? .oaep : .pkcs1
      #expect(device.decrypt(subject, padding: padding) == Array(notification.plaintext.utf8))
    }
  }

  @Test func `keys are written as PHP writes them`() throws {
    for pem in [vectors.userPublicKey, vectors.devicePublicKey, vectors.otherUserPublicKey] {
      #expect(try RSAPublicKey(pem: pem).pem == pem)
      #expect(pem.utf8.count == 451)
    }
    #expect(try RSAPrivateKey(pem: vectors.userPrivateKey).pem == vectors.userPrivateKey)
    #expect(try RSAPrivateKey(pem: vectors.userPrivateKey).publicKey == user)
  }
}
