import Foundation
import SQL
import Sealing
import TestDatabase
import TestSupport
import Testing

@testable import Operations

@Suite struct NodesTests {
  private static let key = StorageKey(StorageKeyFile.generate())

  @Test(arguments: DatabaseEngine.available)
  func `A node is there while it serves, and gone when it stops`(_ engine: DatabaseEngine) async throws {
    try await TestDatabase.with(engine) { database in
      try await withTemporaryFolder { folder in
        let nodes = Nodes(database: database)
        let follower = StorageKeyFollower(
          directory: folder.path, database: database, storageKey: try KeyFolder.storageKey(in: folder.path))
        try await follower.begin()
        // A command does the same.
        var all = try await nodes.all()
        #expect(all.count == 1 && all.allSatisfy { !$0.isServing })
        let service = Task { await follower.run(isServing: true) }
        try await eventually("a row") { try await nodes.serving().count == 1 }
        let node = try #require(try await nodes.serving().first)
        #expect(node.version == Version.text)
        #expect(!node.hostname.isEmpty)
        #expect(abs(node.seenAt.timeIntervalSinceNow) < 60)
        service.cancel()
        await service.value
        all = try await nodes.all()
        #expect(all.isEmpty)
      }
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `Who is alive shows by a row that changes, whatever its clock says`(_ engine: DatabaseEngine)
    async throws
  {
    try await TestDatabase.with(engine) { database in
      let clock = TestClock(Date(timeIntervalSince1970: 1_000_000_000))
      let (killed, living) = (
        Nodes(database: database) { clock.now }, Nodes(database: database) { clock.now }
      )
      var waited: [Int] = []
      var alive = try await killed.alive(watching: .seconds(60)) { waited.append($0) }
      #expect(alive.isEmpty && waited.isEmpty)
      try await killed.announce(Self.key, isServing: true)
      try await living.announce(Self.key, isServing: true)
      alive = try await killed.alive(watching: .milliseconds(500)) { waited.append($0) }
      #expect(alive.isEmpty && waited == [2])
      // Its clock was put back.
      let touching = Task {
        while !Task.isCancelled {
          clock.advance(-0.1)
          try await living.announce(Self.key, isServing: true)
        }
      }
      alive = try await killed.alive(watching: .seconds(60)) { waited.append($0) }
      #expect(alive.map(\.id) == [living.own])
      touching.cancel()
      _ = await touching.result
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `One that was killed is shown for an hour`(_ engine: DatabaseEngine) async throws {
    try await TestDatabase.with(engine) { database in
      let clock = TestClock(Date(timeIntervalSince1970: 1_790_000_000))
      let start = clock.now
      let killed = Nodes(database: database) { clock.now }
      clock.advance(1)
      let living = Nodes(database: database) { clock.now }
      for nodes in [killed, living] { try await nodes.announce(Self.key, isServing: true) }
      var sightings: Nodes.Sightings = [:]
      let hour = Duration.seconds(3600)
      #expect(try await living.living(within: hour, &sightings).map(\.id) == [killed.own, living.own])
      for node in sightings.keys { sightings[node] = .now - hour }
      clock.advance(3600)
      try await living.announce(Self.key, isServing: true)
      #expect(try await living.living(within: hour, &sightings).map(\.id) == [living.own])
      let all = try await living.serving()
      #expect(all.map(\.id) == [living.own])
      #expect(all.first?.startedAt == start + 1)
      #expect(all.first?.seenAt == start + 3601)
    }
  }
}
