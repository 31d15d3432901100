import Foundation
import Logging
import TestDatabase
import TestSupport
import Testing

@testable import Operations
@testable import SQL

@Suite struct NodesTests {
  @Test(arguments: DatabaseEngine.available)
  func `A node is there while it serves, and gone when it stops`(_ engine: DatabaseEngine) async throws {
    try await TestDatabase.with(engine) { database in
      let nodes = Nodes(database: database)
      let serving = Task { await nodes.serve(logger: Logger(label: "test")) }
      try await eventually("a row") { try await nodes.all().count == 1 }
      let node = try #require(try await nodes.all().first)
      #expect(node.version == Version.text)
      #expect(!node.hostname.isEmpty)
      #expect(abs(node.seenAt.timeIntervalSinceNow) < 60)
      serving.cancel()
      await serving.value
      let left = try await nodes.all()
      #expect(left.isEmpty)
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `Who is alive shows by a row that changes, whatever its clock says`(_ engine: DatabaseEngine)
    async throws
  {
    try await TestDatabase.with(engine) { database in
      let clock = TestClock(Date(timeIntervalSince1970: 1_000_000_000))
      let nodes = Nodes(database: database) { clock.now }
      var waited: [Int] = []
      var alive = try await nodes.alive(watching: .seconds(60)) { waited.append($0) }
      #expect(alive.isEmpty && waited.isEmpty)
      let (killed, living) = (UUID(), UUID())
      try await nodes.touch(killed, since: clock.now)
      try await nodes.touch(living, since: clock.now)
      alive = try await nodes.alive(watching: .milliseconds(500)) { waited.append($0) }
      #expect(alive.isEmpty && waited == [2])
      // Its clock was put back.
      let touching = Task {
        while !Task.isCancelled {
          clock.advance(-0.1)
          try await nodes.touch(living, since: clock.now)
        }
      }
      alive = try await nodes.alive(watching: .seconds(60)) { waited.append($0) }
      #expect(alive.map(\.id) == [living])
      touching.cancel()
      _ = await touching.result
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `One that was killed is shown for an hour`(_ engine: DatabaseEngine) async throws {
    try await TestDatabase.with(engine) { database in
      let clock = TestClock(Date(timeIntervalSince1970: 1_790_000_000))
      let nodes = Nodes(database: database) { clock.now }
      let (killed, living) = (UUID(), UUID())
      let start = clock.now
      try await nodes.touch(killed, since: start)
      clock.advance(1800)
      try await nodes.touch(living, since: start + 1)
      var all = try await nodes.all()
      #expect(all.map(\.id) == [killed, living])
      #expect(all.map(\.seenAt) == [start, start + 1800])
      clock.advance(1801)
      try await nodes.touch(living, since: start + 1)
      all = try await nodes.all()
      #expect(all.map(\.id) == [living])
      #expect(all.first?.startedAt == start + 1)
      #expect(all.first?.seenAt == start + 3601)
    }
  }
}
