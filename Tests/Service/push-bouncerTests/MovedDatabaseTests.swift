import Foundation
import HTTP
import Migrations
import ProviderSimulator
import Providers
import SQL
import Sealing
import TestDatabase
import TestSupport
import Testing

@testable import Demo

/// The database's files go away while the service runs, come back, or are not there at the next start.
@Suite struct MovedDatabaseTests {
  private var stage: Stage { Fixture.current }

  private var place: Workplace { stage.place }

  private func move(to folder: String, from other: String = ".") throws {
    let files = FileManager.default
    let (target, source) = (place.folder.appending(path: folder), place.folder.appending(path: other))
    try files.createDirectory(at: target, withIntermediateDirectories: true)
    for name in try files.contentsOfDirectory(atPath: source.path)
    where name.hasPrefix("push-bouncer.sqlite") {
      try files.moveItem(at: source.appending(path: name), to: target.appending(path: name))
    }
  }

  private func finding(_ name: String, of doctor: Workplace.Result) throws -> [JSON] {
    try doctor.json["findings"]?.elements.filter { $0["check"]?.string == name } ?? []
  }

  private func refused(_ status: Int, _ call: () async throws -> Void) async {
    do {
      try await call()
      Issue.record("it was not refused")
    } catch { #expect("\(error)".contains(": \(status)"), "\(error)") }
  }

  @Test(.stage, .enabled(if: DatabaseEngine.chosen == .sqlite))
  func `Nothing is promised while the file is away, and all goes on when it is back`() async throws {
    try await stage.serve("--delivery.deadline", "3s", "--log.level", "notice") { running, server in
      let phones = try await stage.phones(4, at: server)
      try move(to: "away")
      try await eventually("unavailable") {
        let ready = try await running.call("admin", path: "/readyz")
        return ready.status == 503 && ready.json["checks"]?["database"]?["reason"]?.string == "moved"
      }
      let line = "the database's file is gone"
      func lines() -> [JSON] {
        running.lines.filter { $0["message"]?.string?.hasPrefix(line) == true }
      }
      let metrics = try await running.call("admin", path: "/metrics").text
      #expect(metrics.contains("\npush_bouncer_readiness{check=\"database\"} 2\n"))
      await eventually("a line") { !lines().isEmpty }
      let logged = lines()
      #expect(logged.count == 1 && logged.first?["level"]?.string == "error", "\(logged)")
      #expect(logged.first?["advice"]?.string?.contains("Move the same files back") == true)
      // What needs no write goes through.
      #expect(try await server.mark(phones).sent == 4)
      await refused(429) { try await stage.register(Stage.phone(.fcm), at: server) }
      await stage.faults { $0.outage = true }
      await refused(503) { _ = try await server.mark(phones) }
      let doctor = try await place.run(
        "doctor", "--json", "--admin-port", "\(running.port(of: "admin") ?? 0)")
      let findings = try finding("database", of: doctor)
      #expect(doctor.status == 1 && findings.allSatisfy { $0["status"]?.string == "fault" }, "\(findings)")
      let details = findings.compactMap { $0["detail"]?.string }
      #expect(details.count == 2 && details.contains { $0.contains("is not there, and") }, "\(details)")
      #expect(details.contains { $0.contains("nothing is accepted") })
      try move(to: ".", from: "away")
      try await eventually("ready again") { try await running.check("database")["status"] == "ok" }
      await stage.faults()
      try await stage.register(Stage.phone(.fcm), at: server)
      await running.end()
    }
  }

  @Test(.stage, .enabled(if: DatabaseEngine.chosen == .sqlite))
  func `A start without the database that was served before is told of`() async throws {
    try await stage.serve { running, _ in
      await eventually("a record") { place.exists("Keys/store.json") }
      await running.end()
    }
    try move(to: "away")
    let missing = try finding("database", of: try await place.run("doctor", "--json"))
    #expect(missing.first?["status"]?.string == "fault", "\(missing)")
    try await place.serve { running in
      try await eventually("degraded") {
        let ready = try await running.call("admin", path: "/readyz")
        return ready.status == 200 && ready.json["status"]?.string == "degraded"
          && ready.json["checks"]?["store"]?["status"]?.string == "failing"
      }
      let metrics = try await running.call("admin", path: "/metrics").text
      #expect(metrics.contains("\npush_bouncer_readiness{check=\"database\"} 0\n"))
      #expect(metrics.contains("\npush_bouncer_readiness{check=\"store\"} 1\n"))
      let error = running.lines.first { $0["level"]?.string == "error" }
      #expect(error?["message"]?.string?.hasPrefix("the database was replaced") == true, "\(running.logged)")
      #expect(error?["advice"]?.string?.contains("put the database back") == true)
      await running.end()
    }
    let other = try finding("database", of: try await place.run("doctor", "--json"))
    #expect(other.first?["detail"]?.string?.contains("is another one, and") == true, "\(other)")
    try move(to: "empty")
    try move(to: ".", from: "away")
    let back = try finding("database", of: try await place.run("doctor", "--json"))
    #expect(back.first?["status"]?.string == "ok", "\(back)")
    try await place.serve { running in
      await eventually("compared") { running.logged.contains("the database was replaced") }
      let check = try await running.check("store")
      #expect(check == .null)
      let metrics = try await running.call("admin", path: "/metrics").text
      #expect(metrics.contains("\npush_bouncer_readiness{check=\"store\"} 0\n"))
      await running.end()
    }
  }

  @Test(.place(begun: true), .enabled(if: DatabaseEngine.chosen == .sqlite))
  func `A copy that was stopped is refused by every command until it has ended`() async throws {
    let place: Workplace = Fixture.current
    _ = try await place.run("server", "add", "--hostname", "chat.example.org")
    let path = place.folder.appending(path: "other.sqlite").path
    let database = try await openDatabase(url: DatabaseURL(sqlitePath: path))
    try await Schema.migrate(database)
    let stop = "CREATE TRIGGER stop BEFORE INSERT ON remote_servers BEGIN SELECT RAISE(ABORT, 'stopped'); END"
    try await database.write { try $0.runScript(stop) }
    let copy = ["copy", "--from", "sqlite:push-bouncer.sqlite", "--to", "sqlite:other.sqlite"]
    #expect(try await place.run(copy).status == 1)
    let setting = ["--database-url", "sqlite:other.sqlite"]
    let commands = [
      ["serve"] + setting, ["server", "list"] + setting, ["init"] + setting, ["doctor"] + setting,
      ["keys", "rotate-storage"] + setting,
      ["copy", "--from", "sqlite:other.sqlite", "--to", "sqlite:third.sqlite"],
    ]
    for command in commands {
      let refused = try await place.run(command)
      #expect(refused.status != 0, "\(command)")
      #expect((refused.errors + refused.output).contains("an unfinished copy"), "\(command) \(refused)")
    }
    try await database.write { try $0.runScript("DROP TRIGGER stop") }
    await database.close()
    let whole = try await place.run(copy)
    #expect(whole.status == 0, "\(whole.errors)")
    #expect(try await place.run(["server", "list"] + setting).output.contains("chat.example.org"))
  }
}
