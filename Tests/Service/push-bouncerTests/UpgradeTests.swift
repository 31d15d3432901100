import Foundation
import HTTP
import Migrations
import SQL
import TestDatabase
import TestSupport
import Testing

@testable import Basics
@testable import Demo
@testable import Platform

/// Migrations that later versions of the program could have.
private enum Later {
  /// Adds to tables that every call uses.
  static func adding(_ engine: DatabaseEngine) -> [Migration] {
    Schema.migrations(for: engine) + [
      Migration(
        Schema.version + 1, "add", oldest: 1,
        template: """
          ALTER TABLE registrations ADD COLUMN note $text;
          ALTER TABLE registrations ADD COLUMN weight $int NOT NULL DEFAULT 7;
          ALTER TABLE outbox ADD COLUMN note $text;
          CREATE INDEX registrations_by_weight ON registrations (weight);
          CREATE TABLE weights (id $id, registration_id $int NOT NULL REFERENCES registrations (id)) $strict;
          """, for: engine)
    ]
  }

  /// Removes what only programs do without that know the former one.
  static func removing(_ engine: DatabaseEngine) -> [Migration] {
    adding(engine) + [
      Migration(
        Schema.version + 2, "remove", oldest: Schema.version + 1,
        sql: "ALTER TABLE registrations DROP COLUMN note; ALTER TABLE outbox DROP COLUMN note;")
    ]
  }
}

extension NodesTests {
  /// From the present version over two made-up ones, of which the second takes something away, under load.
  @Test func `Nodes are upgraded one after the other while they serve, and no call fails`() async throws {
    try await PostgreSQLServer.test { postgres in
      try await Stage.test(database: postgres.url) { stage in
        let ledger = Ledger()
        let robin = RoundRobin()
        @Sendable func promises() async {
          let before = ledger.now
          await eventually("promises") {
            let now = ledger.now
            return now.marks.count > before.marks.count + 40 && now.phones.count > before.phones.count + 4
          }
        }
        @Sendable func leave(_ number: Int) async {
          robin.remove(number)
          await eventually("nothing under way") { robin.calls(at: number) == 0 }
        }
        let nodes = Started()
        try await withCleanUp {
          try await stage.serve("--log.level", "notice") { older, server in
            robin.add(0, server)
            try await load(stage, robin, ledger, until: longestWait) {
              await promises()
              let refusal = await #expect(throws: Fault.self) {
                _ = try await stage.otherNode(Later.removing, database: postgres.url)
              }
              let text = "\(refusal.map { "\($0)" } ?? "")"
              #expect(
                text.contains("push-bouncer \(Version.text) on \(ProcessInfo.processInfo.hostName), started"))
              #expect(
                text.contains(
                  "upgrade that node first to a release that knows migration \(Schema.version + 1), or stop it"
                ))
              await promises()
              // What only adds has been applied by then.
              let newer = try await nodes.add(stage.otherNode(Later.adding, database: postgres.url))
              robin.add(1, newer.server)
              await promises()
              await leave(0)
              await older.end()
              // It can still be put back.
              try await stage.serve("--log.level", "notice") { older, server in
                robin.add(0, server)
                await promises()
                await leave(0)
                await older.end()
              }
              let newest = try await nodes.add(stage.otherNode(Later.removing, database: postgres.url))
              robin.add(2, newest.server)
              await promises()
              await leave(1)
              await promises()
            }
          }
          #expect(ledger.now.refusals == 0)
          try await settle(stage, robin, ledger)
          let refused = try await stage.place.run("server", "list")
          #expect(refused.status == 1 && refused.errors.contains("it belongs to a newer push-bouncer"))
        } cleanUp: {
          try await nodes.stop()
        }
      }
    }
  }
}

/// The nodes that have to be stopped.
private actor Started {
  private var nodes: [OtherNode] = []

  func add(_ node: OtherNode) -> OtherNode {
    nodes.append(node)
    return node
  }

  func stop() async throws {
    for node in nodes { try await node.stop() }
  }
}

/// An older program after a newer one.
@Suite struct DowngradeTests {
  private var stage: Stage { Fixture.current }

  private func migrate(_ migrations: (DatabaseEngine) -> [Migration]) async throws {
    let path = stage.place.folder.appending(path: "push-bouncer.sqlite").path
    let database = try await openDatabase(url: DatabaseURL(sqlitePath: path))
    try await Migrator.migrate(database, migrations(.sqlite))
    await database.close()
  }

  @Test(.stage) func `It serves what a newer one has added to, but does not copy it`() async throws {
    try await migrate(Later.adding)
    try await stage.serve { _, server in
      let phones = try await stage.phones(4, at: server)
      #expect(try await server.mark(phones).sent == 4)
    }
    let doctor = try await stage.place.run("doctor", "--json").json
    let database = doctor["findings"]?.elements.first { $0["check"] == "database" }
    #expect(
      database?["detail"]?.string?.hasSuffix(" is newer than this program, which can use it nevertheless")
        == true, "\(doctor)")
    let copied = try await stage.place.run(
      "copy", "--from", "sqlite:push-bouncer.sqlite", "--to", "sqlite:other.sqlite")
    #expect(copied.status == 1)
    #expect(
      copied.errors.contains(
        "--from names sqlite:push-bouncer.sqlite: it belongs to a newer push-bouncer; run that version"),
      "\(copied.errors)")
  }

  @Test(.stage) func `It refuses what a newer one has removed from`() async throws {
    try await migrate(Later.removing)
    let refused = try await stage.place.run("serve")
    #expect(refused.status == 1)
    #expect(
      refused.errors.contains(
        "it belongs to a newer push-bouncer; run that version, or restore a backup made before it"),
      "\(refused.errors)")
  }
}
