import Foundation
import Logging
import Registrations
import TestDatabase
import Testing

@testable import Operations

@Suite struct KeyAnnouncerTests {
  @Test func `The others hear of keys that come and go`() async throws {
    try await withKeyFolder { folder in
      let test = try await TestDatabase()
      defer { withExtendedLifetime(test) {} }
      let keys = BouncerKeys(database: test.database, now: { Date() })
      let files = BouncerKeyFiles(directory: folder.url.path)
      let keyFolder = KeyFolder(directory: folder.url.path, logger: Logger(label: "test"))
      let announcer = KeyAnnouncer(keyFolder, keys: keys, logger: Logger(label: "test"))
      let (first, second) = (try files.generate().publicKey, try files.generate().publicKey)
      keyFolder.load()
      var told = KeyAnnouncer.Told()
      try await announcer.tell(&told)
      #expect(try await keys.isAnnounced(first))
      #expect(try await keys.isAnnounced(second))
      _ = try files.remove(first)
      keyFolder.reload()
      try await announcer.tell(&told)
      #expect(try await !keys.isAnnounced(first))
      #expect(try await keys.isAnnounced(second))
      // Another node took it away and has lost it: nothing has changed here, so it is told in its time.
      try await keys.withdraw([second])
      try await announcer.tell(&told)
      #expect(try await !keys.isAnnounced(second))
      told.time = .now - .seconds(BouncerKeys.interval + 1)
      try await announcer.tell(&told)
      #expect(try await keys.isAnnounced(second))
    }
  }
}
