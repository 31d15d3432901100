import Foundation
import Platform
import SQL

extension Doctor {
  /// Whether what the database has committed survives a power loss and a failover.
  func durabilityFindings() async -> [Finding] {
    if let path = configuration.database.url.sqlitePath { return [fileFinding(path)] }
    guard let database = await visit.existing(), let settings = try? await Self.settings(of: database) else {
      return []
    }
    let findings = Self.findings(settings)
    let failover = try? await FailoverPromise(of: database)
    let loss = try? await FailoverReport.loss(in: database, now: now())
    return (findings.isEmpty ? [.good("durability", "PostgreSQL answers when the disk has it")] : findings)
      + [failover.flatMap(\.self).map(Self.finding)].compactMap(\.self)
      + [loss.flatMap(\.self).map { .warning("failover", $0.meaning, advice: FailoverReport.Loss.advice) }]
      .compactMap(\.self)
  }

  static func finding(_ promise: FailoverPromise) -> Finding {
    guard !promise.isKept else { return .good("failover", promise.sentence) }
    return .warning("failover", promise.sentence, advice: promise.advice ?? "")
  }

  private func fileFinding(_ path: String) -> Finding {
    let real = URL(fileURLWithPath: path).resolvingSymlinksInPath().path
    guard let loss = Mount(of: real, in: mounts)?.loss else {
      return .good("durability", "the file system of \(path) syncs")
    }
    return .bad(
      "durability",
      "\(path) is on \(loss): after a power loss what was answered 200 is gone, or the whole database",
      advice: "put it on a disk: stop the service, move the file, and let database.url name it")
  }

  /// A setting of a server: its value for this program's connections, and what it would be without the
  /// program's own.
  struct ServerSetting: Sendable, Hashable {
    let value: String
    let usual: String
  }

  private static func settings(of database: any Database) async throws -> [String: ServerSetting] {
    let rows = try await database.query(
      Statement(
        """
        SELECT name, setting, reset_val FROM pg_settings
        WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')
        """))
    return try Dictionary(
      rows.map {
        try ($0.text("name"), ServerSetting(value: $0.text("setting"), usual: $0.text("reset_val")))
      },
      uniquingKeysWith: { first, _ in first })
  }

  static func findings(_ settings: [String: ServerSetting]) -> [Finding] {
    var findings: [Finding] = []
    func advice(_ name: String) -> String {
      "in psql: ALTER SYSTEM SET \(name) = on; SELECT pg_reload_conf(); and see that nothing sets it otherwise"
    }
    if settings["fsync"]?.value == "off" {
      findings.append(
        .bad(
          "durability",
          "PostgreSQL runs with fsync = off: a power loss may take what was answered 200, or the whole database",
          advice: advice("fsync")))
    }
    if let commit = settings["synchronous_commit"] {
      if commit.value == "off" {
        findings.append(
          .bad(
            "durability",
            "PostgreSQL runs with synchronous_commit = off: a power loss takes what was answered 200 just before",
            advice: advice("synchronous_commit")))
      } else if commit.usual == "off" {
        findings.append(
          .warning(
            "durability",
            """
            synchronous_commit = off is the default here. This program asks for on, for its own connections; a pooler \
            that shares connections between programs may undo that
            """,
            advice: advice("synchronous_commit")))
      }
    }
    if settings["full_page_writes"]?.value == "off" {
      findings.append(
        .warning(
          "durability",
          """
          PostgreSQL runs with full_page_writes = off: a page that is half written at a power loss stays broken, unless \
          its file system never writes half a page, like ZFS
          """,
          advice: advice("full_page_writes")))
    }
    return findings
  }
}
