import Foundation
import Registrations
import SQL
import Sealing
import Synchronization
import TestDatabase
import TestSupport
import Testing

@testable import Operator
@testable import Platform

@Suite("A new storage.key") struct StorageKeyRotationTests {
  @Test
  func `takes the old one's place while other processes register and read, and loses none of it`()
    async throws
  {
    try await Stage.run { stage in
      let old = try stage.text()
      let key = try await stage.key()
      try await stage.register(0..<600, key)
      let follower = StorageKeyFollower(
        directory: stage.folder.path, database: stage.database, storageKey: key)
      try await follower.begin()
      let (count, isOver) = (Shared(600), Shared(false))
      let following = Task { await follower.run(isServing: true) }
      try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask {
          while !isOver.value {
            let next = count.value
            try await stage.register(next..<next + 1, key)
            count.value = next + 1
            #expect(try await stage.found(next - 50..<next + 1, key) == 51)
          }
        }
        defer { isOver.value = true }
        let resealed = try await stage.rotation(writes: .seconds(5)).run()
        #expect(resealed.resealed >= 600)
        #expect(resealed.unreadable == 0)
        // The process goes on with the new key alone, as soon as it has looked.
        await eventually("the new key alone") { key.ids.count == 1 }
        isOver.value = true
        try await group.waitForAll()
      }
      following.cancel()
      await following.value
      try await stage.expectChanged(from: old, 0..<count.value)
      #expect(try await Nodes(database: stage.database).all().isEmpty)
    }
  }

  @Test
  func `may be stopped at any moment, and goes on where it was`() async throws {
    try await Stage.run { stage in
      let old = try stage.text()
      try await stage.register(0..<50, try await stage.key())
      var sentences = 0
      for moment in 0... {
        let told = Shared(0)
        let task = Task {
          try await stage.rotation { _ in
            told.value += 1
            if told.value > moment { withUnsafeCurrentTask { $0?.cancel() } }
          }.run()
        }
        let result = await task.result
        // One that was killed has its lease for a while.
        stage.ahead.withLock { $0 += 60 }
        sentences = told.value
        if case .success = result { break }
        #expect(moment < 20)
        guard moment < 20 else { return }
        let key = try await stage.key()
        #expect(try await stage.found(0..<50 + moment, key) == 50 + moment)
        try await stage.register(50 + moment..<51 + moment, key)
      }
      #expect(sentences > 0)
      let names = 50..<51
      #expect(try await stage.found(names, try await stage.key()) == 1)
      try await stage.expectChanged(from: old, 0..<50)
    }
  }

  @Test
  func `waits for a process that does not have it yet, and not for one that is no more`() async throws {
    try await Stage.run { stage in
      let old = try stage.text()
      try await stage.register(0..<5, try await stage.key())
      let nodes = Nodes(database: stage.database)
      let elsewhere = StorageKey(try #require(StorageKeyFile(old)))
      try await nodes.announce(elsewhere, isServing: false)
      let task = Task { try await stage.rotation().run() }
      try await eventually { try stage.text() != old }
      let both = try #require(StorageKeyFile(try stage.text()))
      // However long it takes: the database goes on with the old key.
      for _ in 0..<3 {
        try await Task.sleep(for: .milliseconds(600))
        #expect(try await StorageSeal.follow(stage.database, elsewhere))
        #expect(elsewhere.presentID == both.ids[0])
      }
      // Somebody has copied the file.
      #expect(elsewhere.take(both))
      try await nodes.announce(elsewhere, isServing: false)
      try await eventually {
        try await StorageSeal.follow(stage.database, elsewhere) && elsewhere.presentID == both.ids[1]
      }
      try await stage.register(5..<6, elsewhere)
      try await nodes.announce(elsewhere, isServing: false)
      _ = try await task.value
      try await stage.expectChanged(from: old, 0..<6)

      // It has been killed since.
      let second = try stage.text()
      stage.ahead.withLock { $0 += 60 }
      _ = try await stage.rotation(silence: .seconds(2)).run()
      #expect(try await nodes.all().isEmpty)
      try await stage.expectChanged(from: second, 0..<6)
    }
  }

  @Test
  func `is not given up for what the process's own follower had read before`() async throws {
    try await Stage.run { stage in
      let old = try stage.text()
      try await stage.register(0..<5, try await stage.key())
      let (key, former) = (try await stage.key(), try #require(StorageKeyFile(old)))
      // A process that is no more lets the rotation wait, after it has taken the new file.
      try await Nodes(database: stage.database).announce(StorageKey(former), isServing: false)
      let late = Shared(false)
      let rotation = try await stage.rotation(key, silence: .seconds(1)) { sentence in
        if sentence.contains("has the new key") { late.value = key.take(former) }
      }
      _ = try await rotation.run()
      #expect(late.value)
      try await stage.expectChanged(from: old, 0..<5)
    }
  }

  @Test
  func `is given up while it waits for writes, as soon as another process has its lease`() async throws {
    try await Stage.run { stage in
      try await stage.register(0..<5, try await stage.key())
      let (isWaiting, waits) = AsyncStream.makeStream(of: Void.self)
      let rotation = StorageKeyRotation(
        directory: stage.folder.path, database: stage.database, storageKey: try await stage.key(),
        lease: MaintenanceLease("rotate-storage", database: stage.database, now: { Date() }),
        writes: .seconds(3600)
      ) { sentence in
        if sentence.contains("waiting for what was under way") { waits.finish() }
      }
      let end = Shared<(any Error)?>(nil)
      let task = Task { do { _ = try await rotation.run() } catch { end.value = error } }
      for await _ in isWaiting {}
      func lease() async throws -> [Row] {
        try await stage.database.query(
          Statement("SELECT value FROM metadata WHERE name = 'lease.rotate-storage'"))
      }
      let before = try await lease()
      try await eventually("it looks") { try await lease() != before }
      let other = MaintenanceLease("rotate-storage", database: stage.database, now: { Date() + 35 })
      #expect(try await other.claim(for: 10))
      await eventually("its end") { end.value != nil }
      #expect(end.value as? StorageKeyRotation.Failure == .underWay)
      task.cancel()
    }
  }

  @Test
  func `waits for the end of another change, and says so once`() async throws {
    try await Stage.run { stage in
      try await stage.register(0..<5, try await stage.key())
      func lease() -> MaintenanceLease {
        MaintenanceLease("rotate-storage", database: stage.database, now: { Date() })
      }
      let waits = Shared(0)
      let rotation = StorageKeyRotation(
        directory: stage.folder.path, database: stage.database, storageKey: try await stage.key(),
        lease: lease(), writes: .milliseconds(100)
      ) { sentence in
        if sentence.hasPrefix("waiting for the end of another") { waits.value += 1 }
      }
      #expect(try await lease().claim(for: 4))
      #expect(try await rotation.run().resealed == 5)
      #expect(waits.value == 1)
    }
  }

  @Test
  func `is followed by nobody where nothing has been sealed yet`() async throws {
    let test = try await TestDatabase()
    let key = StorageKey(StorageKeyFile.generate())
    #expect(try await StorageSeal.follow(test.database, key))
    #expect(key.ids.count == 1)
  }

  @Test
  func `is not taken from a file of another database, nor from one without the key in use`() async throws {
    try await Stage.run { stage in
      let key = try await stage.key()
      try await stage.register(0..<5, key)
      let own = try stage.text()
      let follower = StorageKeyFollower(
        directory: stage.folder.path, database: stage.database, storageKey: key)
      var state = StorageKeyFollower.State()
      await follower.step(&state)
      #expect(state.problem == nil)
      let path = stage.folder.appending(path: "storage.key").path
      for text in [StorageKeyFile.generate().utf8, Array("broken".utf8)] {
        try PrivateFile.write(text, to: path, replacing: true)
        await follower.step(&state)
        #expect(state.problem != nil)
        #expect(try await stage.found(0..<5, key) == 5)
      }
      try PrivateFile.write(Array(own.utf8), to: path, replacing: true)
      await follower.step(&state)
      #expect(state.problem == nil)
    }
  }

  @Test
  func `does not come while somebody begins who lacks it, and who begins takes it from the file`()
    async throws
  {
    try await Stage.run { stage in
      let nodes = Nodes(database: stage.database)
      let old = try #require(StorageKeyFile(try stage.text()))
      let both = old.addingKey()
      let (first, second) = (StorageKey(old), StorageKey(old))
      #expect(try await nodes.join(first))
      #expect(try await !nodes.changeKey(from: both.ids[0], to: both.ids[1]))
      #expect(first.take(both))
      try await nodes.announce(first, isServing: false)
      // Another rotation was quicker.
      #expect(try await !nodes.changeKey(from: both.ids[1], to: both.ids[0]))
      #expect(try await nodes.changeKey(from: both.ids[0], to: both.ids[1]))
      #expect(try await !Nodes(database: stage.database).join(second))
      let follower = StorageKeyFollower(
        directory: stage.folder.path, database: stage.database, storageKey: second)
      await #expect(throws: StorageSeal.WrongKey.self) { try await follower.begin() }
      #expect(try await nodes.all().count == 1)
      try KeyFolder.write(both, in: stage.folder.path)
      try await follower.begin()
      #expect(second.presentID == both.ids[1])
      #expect(try await nodes.all().count == 2)
    }
  }

  @Test
  func `is taken up by a process that was away while it came, which seals anew what only it can open`()
    async throws
  {
    try await Stage.run { stage in
      let old = try stage.text()
      let key = try await stage.key()
      try await stage.register(0..<5, key)
      func follower(_ writes: Duration) -> StorageKeyFollower {
        StorageKeyFollower(
          directory: stage.folder.path, database: stage.database, storageKey: key, writes: writes)
      }
      let patient = follower(.seconds(3600))
      try await patient.begin()
      var state = StorageKeyFollower.State()
      await patient.step(&state)
      // Nothing is heard of it any more.
      _ = try await stage.rotation(silence: .zero).run()
      try await stage.register(5..<7, key)
      #expect(try await stage.found(0..<7, try await stage.key()) == 5)
      // At once, and not only when no write of its own can still come.
      await patient.step(&state)
      #expect(state.problem == nil)
      #expect(try await stage.found(0..<7, key) == 7)
      #expect(try await stage.found(0..<7, try await stage.key()) == 7)
      // Until nothing more comes, and then it forgets the old key.
      while key.ids.count > 1, state.looks < 10 { await follower(.zero).step(&state) }
      #expect(key.ids.count == 1)
      try await stage.expectChanged(from: old, 0..<7)
    }
  }
}
