import Testing

@testable import Sealing

@Suite struct StorageKeyTests {
  private let tokens = StorageKey.Purpose("registrations.token")
  private let keys = StorageKey.Purpose("remote_servers.key")

  private static let bytes = [UInt8](0..<32)
  private static let text = Base64.encode(bytes)

  private func newKey() throws -> StorageKey {
    StorageKey.generate()
  }

  private func place(_ realm: Int64 = 7, _ text: String? = nil, column: String = "registrations.token")
    -> SealedPlace
  {
    var place = SealedPlace(column: column)
    place.append(realm)
    if let text { place.append(text: text) } else { place.append(nil) }
    return place
  }

  @Test func `What is sealed opens in the same column of the same row under the same key, and only so`()
    throws
  {
    let key = try newKey()
    let sealed = key.seal("c0ffee", at: place())
    #expect(key.openText(sealed, at: place()) == "c0ffee")
    #expect(key.open(sealed, at: place(8)) == nil)
    #expect(key.open(sealed, at: place(7, "")) == nil)
    #expect(key.open(sealed, at: place(column: "registrations.other")) == nil)
    #expect(try newKey().open(sealed, at: place()) == nil)
    #expect(key.open(Array(sealed.dropLast()), at: place()) == nil)
    #expect(key.open([], at: place()) == nil)
    #expect(key.openText(key.seal("", at: place()), at: place()) == "")
    for index in sealed.indices {
      var altered = sealed
      altered[index] ^= 1
      #expect(key.open(altered, at: place()) == nil)
    }
  }

  @Test func `No two rows have the same place, however their parts are cut`() {
    var places: Set<[UInt8]> = []
    for parts in [["ab", "c"], ["a", "bc"], ["abc"], ["abc", ""], ["", "abc"], ["a", "b", "c"]] {
      var place = SealedPlace(column: "t.c")
      for part in parts { place.append(text: part) }
      places.insert(place.associatedData)
      place = SealedPlace(column: "t.c")
      for part in parts { place.append(bytes: Array(part.utf8)) }
      places.insert(place.associatedData)
    }
    for number: Int64? in [nil, 0, 1, -1] {
      var place = SealedPlace(column: "t.c")
      place.append(number)
      places.insert(place.associatedData)
    }
    #expect(places.count == 16)
  }

  @Test func `How often a value did not open is counted by column`() throws {
    let key = try newKey()
    let sealed = key.seal("c0ffee", at: place())
    #expect(key.openText(sealed, at: place()) == "c0ffee")
    #expect(key.failures.isEmpty)
    #expect(key.open(sealed, at: place(column: "registrations.other")) == nil)
    #expect(key.open(sealed, at: place(8)) == nil)
    #expect(key.open(sealed.reversed(), at: place()) == nil)
    #expect(key.failures == ["registrations.other": 1, "registrations.token": 2])
  }

  @Test func `Equal texts are sealed differently, so that the database does not show that they are`() throws {
    let key = try newKey()
    #expect(key.seal("c0ffee", at: place()) != key.seal("c0ffee", at: place()))
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

  @Test(arguments: [text, " \(text)\n"])
  func `A key file holds 32 bytes in base64, white space around them`(text: String) throws {
    let file = try #require(StorageKeyFile(text))
    #expect(StorageKey(file).fingerprint == StorageKey(bytes: Self.bytes).fingerprint)
    #expect(try newKey().fingerprint != StorageKey(bytes: Self.bytes).fingerprint)
  }

  @Test(arguments: ["", "AAAA", text + "AAAA", String(text.dropLast())])
  func `A file with fewer bytes or more holds no key`(text: String) {
    #expect(StorageKeyFile(text) == nil)
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
