import Testing

@testable import Sealing

@Suite struct StorageKeyTests {
  private let tokens = StorageKey.Purpose("registrations.token")
  private let keys = StorageKey.Purpose("remote_servers.key")

  private func newKey() throws -> StorageKey {
    try #require(StorageKey(base64: StorageKey.generate()))
  }

  @Test func `What is sealed opens for the same purpose under the same key, and only so`() throws {
    let key = try newKey()
    let sealed = key.seal("c0ffee", for: tokens)
    #expect(key.openText(sealed, for: tokens) == "c0ffee")
    #expect(key.open(sealed, for: keys) == nil)
    #expect(try newKey().open(sealed, for: tokens) == nil)
    #expect(key.open(Array(sealed.dropLast()), for: tokens) == nil)
    #expect(key.open([], for: tokens) == nil)
    #expect(key.openText(key.seal("", for: tokens), for: tokens) == "")
    for index in sealed.indices {
      var altered = sealed
      altered[index] ^= 1
      #expect(key.open(altered, for: tokens) == nil)
    }
  }

  @Test func `Equal texts are sealed differently, so that the database does not show that they are`() throws {
    let key = try newKey()
    #expect(key.seal("c0ffee", for: tokens) != key.seal("c0ffee", for: tokens))
  }

  @Test func `A keyed hash depends on text, purpose and key`() throws {
    let key = try newKey()
    let hash = key.hash("secret", for: keys)
    #expect(hash.count == 32)
    #expect(key.hash("secret", for: keys) == hash)
    #expect(key.hash("Secret", for: keys) != hash)
    #expect(key.hash("secret", for: tokens) != hash)
    #expect(try newKey().hash("secret", for: keys) != hash)
    #expect(key.matches("secret", hash: hash, for: keys))
    #expect(!key.matches("secreT", hash: hash, for: keys))
    #expect(!key.matches("secret", hash: Array(hash.dropLast()), for: keys))
  }

  @Test func `A key file holds 32 bytes in base64, white space around them`() throws {
    let text = StorageKey.generate()
    let key = try #require(StorageKey(base64: text))
    #expect(StorageKey(base64: " \(text)\n")?.fingerprint == key.fingerprint)
    #expect(try newKey().fingerprint != key.fingerprint)
    for bad in ["", "AAAA", text + "AAAA", String(text.dropLast())] {
      #expect(StorageKey(base64: bad) == nil)
    }
  }

  @Test func `Memory that held a key is overwritten`() {
    var bytes: [UInt8] = [1, 2, 3]
    bytes.wipe()
    #expect(bytes == [0, 0, 0])
  }

  @Test func `Random texts are letters and digits, and never the same`() {
    let text = RandomText.alphanumeric(64)
    #expect(text.utf8.count == 64)
    #expect(
      text.unicodeScalars.allSatisfy {
        $0.isASCII && ($0.properties.isAlphabetic || $0.properties.numericType != nil)
      })
    #expect(RandomText.alphanumeric(64) != text)
  }
}
