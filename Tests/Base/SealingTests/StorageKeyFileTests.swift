import Testing

@testable import Sealing

@Suite struct StorageKeyFileTests {
  private let place = SealedPlace(column: "registrations.token")
  private let purpose = StorageKey.Purpose("remote_servers.key")

  private func reread(_ file: StorageKeyFile) throws -> StorageKeyFile {
    try #require(StorageKeyFile(text(file)))
  }

  private func text(_ file: StorageKeyFile) -> String { String(decoding: file.utf8, as: UTF8.self) }

  private static let (one, two, three) = (line(of: 1), line(of: 2), line(of: 3))

  private static func line(of byte: UInt8) -> String {
    Base64.encode([UInt8](repeating: byte, count: StorageKey.keyBytes))
  }

  @Test func `A new key stands beside the old one, and then alone; the hashes stay the same`() throws {
    let old = StorageKeyFile.generate()
    let both = try reread(old.addingKey())
    #expect(both.ids.count == 2)
    #expect(both.ids.first == old.ids.first)
    let new = try reread(try #require(both.keepingKey(both.ids[1])))
    #expect(new.ids == [both.ids[1]])
    #expect(both.keepingKey([1, 2, 3]) == nil)
    let third = try reread(new.addingKey())
    #expect(third.ids.first == new.ids.first)
    let hash = StorageKey(old).hash("secret", for: purpose)
    for file in [both, new, third] {
      #expect(StorageKey(file).hash("secret", for: purpose) == hash)
      #expect(StorageKey(file).fingerprint == StorageKey(old).fingerprint)
    }
  }

  @Test func `Both keys open while both are there, and the one that is named seals`() throws {
    let old = StorageKeyFile.generate()
    let both = old.addingKey()
    let key = StorageKey(old)
    let before = key.seal("before", at: place)
    #expect(!key.seal(withKey: both.ids[1]))
    #expect(key.take(both))
    #expect(key.presentID == both.ids[0])
    #expect(key.isPresent(before))
    #expect(key.seal(withKey: both.ids[1]))
    let after = key.seal("after", at: place)
    #expect(key.isPresent(after) && !key.isPresent(before))
    #expect(key.openText(before, at: place) == "before")
    #expect(key.openText(after, at: place) == "after")
    #expect(StorageKey(old).open(after, at: place) == nil)
    // The key that seals cannot be taken away.
    #expect(!key.take(old))
    #expect(key.openText(after, at: place) == "after")
    #expect(key.take(try #require(both.keepingKey(both.ids[1]))))
    #expect(key.open(before, at: place) == nil)
    #expect(key.openText(after, at: place) == "after")
    #expect(!key.take(StorageKeyFile.generate()))
  }

  @Test func `Who was away while the key changed opens what it sealed, and seals with the new one`() throws {
    let old = StorageKeyFile.generate()
    let both = old.addingKey()
    let new = try #require(both.keepingKey(both.ids[1]))
    let key = StorageKey(old)
    let late = key.seal("late", at: place)
    #expect(!key.take(new))
    #expect(!key.catchUp(new, sealingWith: old.ids[0]))
    #expect(!key.catchUp(StorageKeyFile.generate(), sealingWith: new.ids[0]))
    #expect(key.catchUp(new, sealingWith: new.ids[0]))
    #expect(key.openText(late, at: place) == "late")
    #expect(StorageKey(new).openText(key.seal("after", at: place), at: place) == "after")
    #expect(key.take(new))
    #expect(key.open(late, at: place) == nil)
  }

  @Test(arguments: ["\(one)\n", "\(one)\nhashing \(three)\n", "\(one)\n\(two)\nhashing \(three)\n"])
  func `A file is written as it was read`(lines: String) throws {
    #expect(text(try #require(StorageKeyFile(lines))) == lines)
  }

  @Test(arguments: [one, " \(one) \r\n", "\(one)\n\(two)\nhashing \(two)\n", "hashing \(two)\n\(one)"])
  func `A file holds keys one a line, and perhaps the one that hashes`(text: String) {
    #expect(StorageKeyFile(text) != nil)
  }

  @Test(arguments: [
    "", "\n", "AAAA", "\(one)\n\(two)", "hashing \(one)", "\(one)\nhashing AAAA", "\(one) \(two)",
    "\(one)\nhashing \(two)\nhashing \(two)", "\(one)\n\(one)\n\(one)\nhashing \(two)",
    "\(one)\nother \(two)", String(one.dropLast()), "\(one)=",
    // Bits that are not used must be zero.
    String(repeating: "A", count: 42) + "B=",
  ])
  func `A file that says anything else is none`(text: String) {
    #expect(StorageKeyFile(text) == nil)
  }

  @Test func `A file that goes on without end is none`() {
    #expect(StorageKeyFile(Self.one + String(repeating: "\n", count: 4096)) == nil)
  }
}
