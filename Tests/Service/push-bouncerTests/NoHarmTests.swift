import Foundation
import HTTP
import SQL
import TestDatabase
import TestSupport
import Testing

/// Tests commands in the wrong place or at the wrong time.
@Suite struct NoHarmTests {
  private static let commands = [
    ["server", "list"], ["server", "add", "--hostname", "a.example.org"], ["keys", "list"],
    ["keys", "generate"],
    ["keys", "rotate-storage"], ["account", "list"], ["account", "add", "--email", "a@example.org"],
    ["routes"], ["outbox"], ["clock", "trust"],
  ]

  @Test(arguments: commands)
  func `Where nothing was begun a command says where it looked and makes nothing`(_ command: [String])
    async throws
  {
    try await Workplace.test { place in
      let result = try await place.run(command)
      #expect(result.status == 1)
      #expect(result.output == "")
      #expect(result.errors.contains("push-bouncer init"), "\(result.errors)")
      #expect(result.errors.contains("Database: sqlite:\(place.folder.path)/push-bouncer.sqlite"))
      #expect(result.errors.contains("Keys: \(place.folder.path)/Keys"))
      #expect(try FileManager.default.contentsOfDirectory(atPath: place.folder.path) == [".logs"])
    }
  }

  @Test func `An empty database on a server is none either`() async throws {
    guard DatabaseEngine.available.contains(.postgreSQL) else { return }
    let database = try await TestDatabase(.postgreSQL, migrated: false)
    try await Workplace.test(environment: ["PUSH_BOUNCER_DATABASE_URL": database.setting]) { place in
      let list = try await place.run("server", "list")
      #expect(list.status == 1 && list.errors.contains("holds no database of push-bouncer"))
      let tables = try await database.database.query(
        Statement("SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'"))
      #expect(tables.isEmpty)
      #expect(try await place.run("init").status == 0)
      #expect(try await place.run("server", "list").status == 0)
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `No key is made beside a database that was sealed with another`(_ engine: DatabaseEngine) async throws
  {
    let database = try await TestDatabase(engine, migrated: false)
    try await Workplace.test(begun: true, environment: ["PUSH_BOUNCER_DATABASE_URL": database.setting]) {
      place in
      let keys = place.folder.appending(path: "Keys")
      try FileManager.default.moveItem(at: keys, to: place.folder.appending(path: "Old"))
      for command in [
        ["serve", "--http-port", "0", "--admin-port", "0"], ["init"], ["server", "list"], ["keys", "list"],
      ] {
        let result = try await place.run(command)
        #expect(result.status == 1)
        #expect(result.errors.contains("Keys/storage.key is missing"), "\(result.errors)")
        #expect(result.errors.contains("restore the file"))
        #expect(!place.exists("Keys/storage.key"))
      }
      try? FileManager.default.removeItem(at: keys)
      try FileManager.default.moveItem(at: place.folder.appending(path: "Old"), to: keys)
      #expect(try await place.run("server", "list").status == 0)
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `A copy refuses while a node serves, and goes on after one that was killed`(_ engine: DatabaseEngine)
    async throws
  {
    let database = try await TestDatabase(engine, migrated: false)
    try await Workplace.test(begun: true, environment: ["PUSH_BOUNCER_DATABASE_URL": database.setting]) {
      place in
      let copy = ["copy", "--from", database.setting, "--to", "sqlite:copy.sqlite"]
      try await place.serve { running in
        for direction in [copy, ["copy", "--from", "sqlite:copy.sqlite", "--to", database.setting]] {
          let refused = try await place.run(direction)
          #expect(refused.status == 1)
          #expect(refused.errors.contains("database is in use: the node on"), "\(refused.errors)")
          #expect(refused.output == "")
        }
        running.send(SIGKILL)
        _ = await running.status()
      }
      let after = try await place.run(copy)
      #expect(after.status == 0, "\(after.errors)")
      #expect(after.errors.contains("watching for up to 15 s"))
      #expect(after.output.contains("both databases are the same"))
      // The orderly end leaves no row, and nothing is waited for.
      try await place.serve("--database-url", "sqlite:copy.sqlite") { running in
        await running.end()
      }
      let back = try await place.run("copy", "--from", "sqlite:copy.sqlite", "--to", "sqlite:third.sqlite")
      #expect(back.status == 0, "\(back.errors)")
      #expect(!back.errors.contains("watching"))
      let nowhere = try await place.run(
        "copy", "--from", "sqlite:none.sqlite", "--to", "sqlite:fourth.sqlite")
      #expect(nowhere.status == 1 && nowhere.errors.contains("\(place.folder.path)/none.sqlite"))
      #expect(!place.exists("none.sqlite") && !place.exists("fourth.sqlite"))
    }
  }
}
