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

  @Test func `Another key opens nothing that the one before has sealed, and makes the same hashes`() throws {
    var file = StorageKeyFile.generate()
    let hash = StorageKey(file).hash("secret", for: purpose)
    for _ in 0..<2 {
      let (old, new) = (StorageKey(file), StorageKey(try reread(file.successor())))
      let (before, after) = (old.seal("before", at: place), new.seal("after", at: place))
      #expect(old.id != new.id)
      #expect(old.hasSealed(before) && !old.hasSealed(after) && new.hasSealed(after))
      #expect(new.open(before, at: place) == nil && old.open(after, at: place) == nil)
      #expect(new.openText(after, at: place) == "after")
      #expect(new.hash("secret", for: purpose) == hash)
      #expect(new.fingerprint == old.fingerprint)
      file = file.successor()
    }
  }

  @Test(arguments: ["\(one)\n", "\(one)\nhashing \(three)\n"])
  func `A file is written as it was read`(lines: String) throws {
    #expect(text(try #require(StorageKeyFile(lines))) == lines)
  }

  @Test(arguments: [one, " \(one) \r\n", "hashing \(two)\n\(one)"])
  func `A file holds a key, and perhaps the one that hashes`(text: String) {
    #expect(StorageKeyFile(text) != nil)
  }

  @Test(arguments: [
    "", "\n", "AAAA", "\(one)\n\(two)", "hashing \(one)", "\(one)\nhashing AAAA", "\(one) \(two)",
    "\(one)\nhashing \(two)\nhashing \(two)", "\(one)\n\(one)\nhashing \(two)",
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
