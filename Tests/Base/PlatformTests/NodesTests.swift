import Foundation
import Migrations
import SQL
import Sealing
import TestDatabase
import TestSupport
import Testing

@testable import Basics
@testable import Platform

@Suite struct NodesTests {
  private static let key = StorageKey(StorageKeyFile.generate())

  @Test(arguments: DatabaseEngine.available)
  func `A node is there while it serves, and gone when it stops`(_ engine: DatabaseEngine) async throws {
    try await TestDatabase.with(engine) { database in
      let nodes = Nodes(database: database)
      try await nodes.join(Self.key)
      // A command does the same.
      var all = try await nodes.all()
      #expect(all.count == 1 && all.allSatisfy { !$0.isServing })
      let service = Task { try await nodes.stay(Self.key, isServing: true) }
      try await eventually("a row") { try await nodes.serving().count == 1 }
      let node = try #require(try await nodes.serving().first)
      #expect(node.version == Version.text)
      #expect(!node.hostname.isEmpty)
      #expect(abs(node.seenAt.timeIntervalSinceNow) < 60)
      service.cancel()
      try await service.value
      all = try await nodes.all()
      #expect(all.isEmpty)
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
      try await killed.join(Self.key, isServing: true)
      try await living.join(Self.key, isServing: true)
      alive = try await killed.alive(watching: .milliseconds(500)) { waited.append($0) }
      #expect(alive.isEmpty && waited == [2])
      // Its clock was put back.
      let touching = Task {
        while !Task.isCancelled {
          clock.advance(-0.1)
          try await living.join(Self.key, isServing: true)
        }
      }
      alive = try await killed.alive(watching: .seconds(60)) { waited.append($0) }
      #expect(alive.map(\.id) == [living.own])
      touching.cancel()
      _ = await touching.result
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `The heartbeat of one node keeps no other in the list`(_ engine: DatabaseEngine) async throws {
    try await TestDatabase.with(engine) { database in
      let clock = TestClock()
      let (silent, beating) = (
        Nodes(database: database) { clock.now }, Nodes(database: database) { clock.now }
      )
      for node in [silent, beating] { try await node.join(Self.key, isServing: true) }
      var sightings: Nodes.Sightings = [:]
      var living: [UUID] = []
      let end = ContinuousClock.now + longestWait
      repeat {
        clock.advance(1)
        #expect(try await beating.touch(isServing: true))
        living = try await beating.living(within: .milliseconds(300), &sightings).map(\.id)
        // Between two looks; the silence is measured by the monotonic clock, which no test sets.
        try await Task.sleep(for: .milliseconds(20))
      } while living.count > 1 && .now < end
      #expect(living == [beating.own])
    }
  }

  /// The present migrations, and two that a later program could have.
  private static func later(_ engine: DatabaseEngine) -> [Migration] {
    let next = Schema.version + 1
    return Schema.migrations(for: engine) + [
      Migration(next, "add", oldest: 1, sql: "CREATE TABLE later (id BIGINT)"),
      Migration(next + 1, "remove", oldest: next, sql: "DROP TABLE node_bouncer_keys"),
    ]
  }

  @Test(arguments: DatabaseEngine.available)
  func `Nothing is taken from under a node that is alive, and knows no better`(_ engine: DatabaseEngine)
    async throws
  {
    try await TestDatabase.with(engine) { database in
      let later = Self.later(engine)
      let older = Nodes(database: database)
      let new = Nodes(database: database, schema: later.count)
      // A command is not to be cut off either.
      try await older.join(Self.key)
      let beating = Task {
        while !Task.isCancelled { try await older.join(Self.key) }
      }
      let refusal = await #expect(throws: Fault.self) {
        try await new.migrate(later, watching: longestWait) { _ in }
      }
      beating.cancel()
      _ = await beating.result
      let text = "\(try #require(refusal))"
      #expect(
        text.hasPrefix(
          "push-bouncer \(Version.text) on \(ProcessInfo.processInfo.hostName), started "
        ), "\(text)")
      #expect(text.contains("(migration \(later.count), remove); upgrade that node first"), "\(text)")
      #expect(try await Migrator.version(of: database) == later.count - 1)

      // From now on it counts as killed. One that is new enough is in nobody's way.
      let between = Nodes(database: database, schema: later.count - 1)
      try await between.join(Self.key)
      var watched: [Int] = []
      try await new.migrate(later, watching: .milliseconds(500)) { watched.append($0) }
      #expect(watched == [1])
      #expect(try await Migrator.version(of: database) == later.count)
      for nodes in [between, new] { try await nodes.join(Self.key) }
      // It had looked at the database before.
      let error = await #expect(throws: DatabaseError.self) { try await older.join(Self.key) }
      #expect(error?.code == .newerSchema)
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
      for nodes in [killed, living] { try await nodes.join(Self.key, isServing: true) }
      var sightings: Nodes.Sightings = [:]
      let hour = Duration.seconds(3600)
      #expect(try await living.living(within: hour, &sightings).map(\.id) == [killed.own, living.own])
      for node in sightings.keys { sightings[node] = .now - hour }
      clock.advance(3600)
      try await living.join(Self.key, isServing: true)
      #expect(try await living.living(within: hour, &sightings).map(\.id) == [living.own])
      let all = try await living.serving()
      #expect(all.map(\.id) == [living.own])
      #expect(all.first?.startedAt == start + 1)
      #expect(all.first?.seenAt == start + 3601)
    }
  }
}
