import Foundation
import Providers
import Registrations
import SQL
import Sealing
import Synchronization
import TestDatabase
import TestSupport
import Testing

@testable import ZulipImport

extension ImportCounts {
  /// Number of source rows that are stored after the run, on their own or as part of another row.
  fileprivate var present: Int {
    self[.imported] + self[.alreadyThere] + self[.mergedSpelling] + self[.mergedToken]
  }
}

@Suite(.needsPostgreSQL) struct ImportRunTests {
  @Test(arguments: DatabaseEngine.available) func `Every row becomes what it should`(
    engine: DatabaseEngine
  ) async throws {
    let (source, target) = (try await ZulipBouncerDatabase(), try await ImportTarget(engine))
    let report = try await target.importing().run(from: source.source)
    #expect(report.isComplete && report.missing.isEmpty)

    let ordinary = ZulipRows.ordinary
    #expect(report[.servers].results == [.imported: 7, .renamed: 3])
    #expect(report[.servers].refused == [.noKey: 1])
    #expect(report[.realms].results == [.imported: 3])
    #expect(report[.realms].refused == [.unknownServer: 1])
    #expect(report[.devices].results == [.imported: 5 + ordinary, .mergedToken: 2])
    #expect(
      report[.devices].refused == [
        .cloudRealm: 1, .wrongTokenID: 1, .noAppID: 1, .unknownKind: 1, .unknownRealm: 1,
        .tokenNotHexadecimal: 1, .tokenLength: 1, .malformedAppID: 1,
      ])
    #expect(
      report[.tokens].results == [
        .imported: 15 + ordinary, .superseded: 2, .mergedSpelling: 1, .mergedUserID: 1,
      ])
    #expect(
      report[.tokens].refused == [
        .unknownKind: 1, .tokenLength: 1, .tokenNotHexadecimal: 1, .noAppID: 1, .noUser: 1, .twoUsers: 1,
        .userIDOutOfRange: 1, .unknownServer: 1, .realmOfAnotherServer: 1, .malformedAppID: 1,
      ])
    for table in ZulipTable.allCases {
      let counts = report[table]
      let results = counts.results.filter { $0.key != .renamed }.values.reduce(0, +)
      #expect(counts.read == results + counts.refusals)
    }
  }

  @Test(arguments: DatabaseEngine.available) func `Each device is reached as before`(
    engine: DatabaseEngine
  ) async throws {
    let (source, target) = (try await ZulipBouncerDatabase(), try await ImportTarget(engine))
    _ = try await target.importing().run(from: source.source)
    let rows = try await target.database.read { connection in
      try connection.query(
        Statement(
          """
          SELECT l.token, s.contact_email, r.host, l.user_id, l.user_uuid, l.kind, l.target, l.registered_at,
            l.server_id
          FROM registrations l JOIN remote_servers s ON s.id = l.server_id
            LEFT JOIN remote_realms r ON r.id = l.realm_id WHERE wire = 2
          """))
    }
    let devices = try Set(
      rows.map { row in
        let token = try #require(
          ImportTarget.key.openText(
            try row.bytes("token"),
            at: SealedPlace.token(
              server: try row.value("server_id"), user: try row.value("user_id"),
              uuid: try row.value("user_uuid")))
        )
        let user =
          try row.optionalInt64("user_id").map(String.init) ?? row.text("user_uuid").suffix(1).description
        let day = (try row.int64("registered_at") - 1_704_067_200_000) / 86_400_000 + 1
        return """
          \(token) \(try row.text("contact_email").prefix(1)) \(try row.optionalText("host") ?? "-") \(user) \(try row.int64("kind")) \
          \(try row.optionalText("target") ?? "-") \(day)
          """
      }.filter { !$0.hasPrefix("fcm:legacy") })
    let lastDay =
      (Int64(ImportTarget.now.timeIntervalSince1970 * 1000) - 1 - 1_704_067_200_000) / 86_400_000 + 1
    #expect(
      devices == [
        "aabbCC a - 1 1 org.example.chat 2", "FCM:one a chat.example.org 1 2 - 4",
        "dd01 a chat.example.org 1 1 org.example.chat 5", "AABBCC a two.example.org 2 1 org.example.chat 6",
        "ee01 a two.example.org 3 1 org.example.chat 153", "FF02 a chat.example.org 4 1 org.example.chat 9",
        "ff02 b - 7 1 org.example.chat 10", "fcm:shared a - 8 2 - 11", "fcm:shared a - 9 2 - 12",
        "fcm:shared a chat.example.org 5 2 - 13", "fcm:far a chat.example.org 10 2 - 14",
        "fcm:far a two.example.org 6 2 - 15", "fcm:off c - 1 2 - 16", "C0FFEE a - 1 1 org.example.chat 17",
        "fcm:future a - 1 2 - \(lastDay)",
      ])

    let registrations = RegistrationStore(
      database: target.database, storageKey: ImportTarget.key, now: { ImportTarget.now })
    let realms = RemoteRealms(database: target.database)
    func found(_ realm: String, _ tokens: String...) async throws -> [String] {
      let uuid = try #require(UUID(uuidString: "b1000000-0000-4000-8000-0000000000\(realm)"))
      let row = try #require(try await realms.find(uuid: uuid))
      let ids = tokens.map { TokenID(token: $0) }
      return try await registrations.lookup(realm: row.id, tokenIDs: ids).found.values.map {
        "\($0.token.text) \($0.iosAppID ?? "-")"
      }.sorted()
    }
    #expect(
      try await found("10", "AABBCC", "webpush:e30", "dd01", "wrong") == [
        "AABBCC org.example.chat", "webpush:e30 -",
      ])
    #expect(try await found("11", "fcm:dup") == ["fcm:dup -"])
    #expect(try await found("20", "AABBCC", "fcm:many60") == ["AABBCC org.example.chat", "fcm:many60 -"])
  }

  @Test(arguments: DatabaseEngine.available) func `Servers keep their credentials, and one the hostname`(
    engine: DatabaseEngine
  ) async throws {
    let (source, target) = (try await ZulipBouncerDatabase(), try await ImportTarget(engine))
    _ = try await target.importing().run(from: source.source)
    var hostnames: [String] = []
    for (number, letter) in zip(1..., "abcdefgh") where number != 6 {
      let uuid = try #require(UUID(uuidString: "a1000000-0000-4000-8000-00000000000\(number)"))
      #expect(try await target.servers.authenticate(uuid: uuid, key: ZulipRows.key("x")) == .wrongKey)
      switch try await target.servers.authenticate(uuid: uuid, key: ZulipRows.key(letter)) {
      case .authenticated(let server): hostnames.append(server.hostname)
      case .deactivated: hostnames.append("off")
      case let other: Issue.record("\(other)")
      }
    }
    func substitute(_ name: String, _ number: Int) -> String {
      "\(name).a1000000-0000-4000-8000-00000000000\(number).invalid"
    }
    #expect(
      hostnames == [
        "chat.example.org", "chat.example.org:8443", "off", "xn--bcher-kva.example.org",
        substitute("built-in.localhost", 5), "off", substitute("chat.example.org", 8),
      ])
    #expect(
      try await target.servers.find(hostname: "Chat.Example.Org.a1000000-0000-4000-8000-000000000007.invalid")
        != nil)
    let off = try #require(try await target.servers.find(hostname: "old.example.org"))
    #expect(off.deactivatedAt == Date(timeIntervalSince1970: 1_709_251_200))
    let alpha = try #require(try await target.servers.find(hostname: "chat.example.org"))
    #expect(alpha.version == "12.0" && alpha.apiFeatureLevel == 483 && alpha.mergeBase == "abc")
    #expect(alpha.lastRequestAt == Date(timeIntervalSince1970: 1_767_323_045.679))
    let realm = try await target.database.read { connection in
      try connection.query(
        Statement("SELECT name, authentication_methods FROM remote_realms WHERE host = 'chat.example.org'"))
    }
    #expect(
      realm.map(\.values) == [
        [.text("Köln, \"quoted\"\nand broken"), .text(#"{"Email":true,"LDAP":false}"#)]
      ])
  }

  @Test(arguments: DatabaseEngine.available) func `Files of COPY give what the database gives`(
    engine: DatabaseEngine
  ) async throws {
    let source = try await ZulipBouncerDatabase()
    let (one, other) = (try await ImportTarget(engine), try await ImportTarget(engine))
    try await withTemporaryFolder { folder in
      try await source.export(to: folder)
      // Rows of one device in several batches, and in one.
      let fromFiles = try await other.importing(batch: 3).run(from: ZulipSource(folder.path))
      #expect(try await one.importing().run(from: source.source) == fromFiles)
      #expect(try await one.contents() == other.contents())
    }
  }

  @Test(arguments: DatabaseEngine.available, [true, false])
  func `A run that is stopped again and again ends as one that was not`(
    engine: DatabaseEngine, readsFiles: Bool
  ) async throws {
    let source = try await ZulipBouncerDatabase()
    let (whole, stopped) = (try await ImportTarget(engine), try await ImportTarget(engine))
    try await withTemporaryFolder { folder in
      try await source.export(to: folder)
      let origin: ZulipSource =
        try readsFiles ? ZulipSource(folder.path) : source.source
      let expected = try await whole.importing().run(from: origin)
      var starts = 0
      while true {
        starts += 1
        let run = stopped.importing(batch: 7)
        let batches = Mutex(0)
        let limit = starts * 3
        let report = try await Task {
          try await run.run(from: origin) { _ in
            let count = batches.withLock { count in
              count += 1
              return count
            }
            if count == limit { withUnsafeCurrentTask { $0?.cancel() } }
          }
        }.value
        if report.isComplete {
          for table in ZulipTable.allCases {
            let (last, expected) = (report[table], expected[table])
            #expect(last.read == expected.read && last.refused == expected.refused)
            #expect(last.present == expected.present && last[.mergedUserID] == expected[.mergedUserID])
          }
          break
        }
        #expect(starts < 50)
      }
      #expect(starts > 5)
      #expect(try await stopped.contents() == whole.contents())
    }
  }

  @Test(arguments: DatabaseEngine.available) func `A failed transaction leaves nothing half done`(
    engine: DatabaseEngine
  ) async throws {
    let source = try await ZulipBouncerDatabase()
    let (whole, failed) = (try await ImportTarget(engine), try await ImportTarget(engine))
    let expected = try await whole.importing(batch: 10).run(from: source.source)
    try await failed.database.write { connection in
      try connection.runScript(
        engine == .sqlite
          ? """
          CREATE TRIGGER stop BEFORE INSERT ON registrations WHEN new.user_id = 10
          BEGIN SELECT RAISE(ABORT, 'stopped'); END;
          """ : "ALTER TABLE registrations ADD CONSTRAINT stop CHECK (user_id IS NULL OR user_id <> 10)")
    }
    await #expect(throws: DatabaseError.self) {
      _ = try await failed.importing(batch: 10).run(from: source.source)
    }
    try await failed.database.write { connection in
      try connection.runScript(
        engine == .sqlite ? "DROP TRIGGER stop" : "ALTER TABLE registrations DROP CONSTRAINT stop")
    }
    let report = try await failed.importing(batch: 10).run(from: source.source)
    #expect(report.isComplete && report[.tokens].present == expected[.tokens].present)
    #expect(try await failed.contents() == whole.contents())
  }

  @Test(arguments: DatabaseEngine.available) func `Twice is once`(engine: DatabaseEngine) async throws {
    let (source, target) = (try await ZulipBouncerDatabase(), try await ImportTarget(engine))
    let first = try await target.importing().run(from: source.source)
    let before = try await target.contents()
    let second = try await target.importing(batch: 9, now: ImportTarget.now + 100).run(from: source.source)
    #expect(try await target.contents() == before)
    for table in ZulipTable.allCases {
      let (first, second) = (first[table], second[table])
      #expect(second[.imported] == 0 && second[.renamed] == 0)
      #expect(second.read == first.read && second.refused == first.refused)
      #expect(second[.superseded] == first[.superseded] && second[.mergedUserID] == first[.mergedUserID])
      #expect(
        second[.alreadyThere] == first[.imported] + first[.mergedSpelling] + first[.mergedToken])
    }
  }

  @Test(arguments: DatabaseEngine.available) func `What has become newer here stays`(
    engine: DatabaseEngine
  ) async throws {
    let (source, target) = (try await ZulipBouncerDatabase(), try await ImportTarget(engine))
    _ = try await target.importing().run(from: source.source)
    let alpha = try #require(ZulipRows.alpha)
    let server = try #require(try await target.servers.find(uuid: alpha))
    let key = try #require(try await target.servers.transfer(server))
    let registrations = RegistrationStore(
      database: target.database, storageKey: ImportTarget.key, now: { ImportTarget.now + 10 })
    let uuid = try #require(UUID(uuidString: "b1000000-0000-4000-8000-000000000010"))
    let realm = try #require(try await RemoteRealms(database: target.database).find(uuid: uuid))
    try await registrations.register(
      try PushToken("dd01", kind: .apns), iosAppID: "org.example.newer", realm: realm.id, bouncerKey: "k")
    // As the service writes a legacy registration again.
    _ = try await target.database.execute(
      Statement(
        "UPDATE registrations SET registered_at = $1, target = 'org.example.newer' WHERE user_id = 7",
        .integer(1_790_000_010_000)))
    let before = try await target.contents()
    let again = try await target.importing(now: ImportTarget.now + 100).run(from: source.source)
    #expect(again[.servers][.imported] == 0 && again[.devices][.imported] == 0)
    // Its E2EE registration lives again, so the legacy one would not be brought in any more; it is here.
    #expect(again[.tokens][.superseded] == 3)
    #expect(try await target.contents() == before)
    #expect(try await target.servers.authenticate(uuid: alpha, key: ZulipRows.key("a")) == .wrongKey)
    guard case .authenticated = try await target.servers.authenticate(uuid: alpha, key: key) else {
      Issue.record("the rotated key is refused")
      return
    }
  }

  @Test func `Whoever registers during a run that is stopped stays as registered`() async throws {
    let (source, target) = (try await ZulipBouncerDatabase(), try await ImportTarget())
    _ = try await Task {
      try await target.importing(batch: 7).run(from: source.source) { progress in
        // The first spelling of a device is here, the second is not.
        if progress.table == .tokens { withUnsafeCurrentTask { $0?.cancel() } }
      }
    }.value
    let time = Int64(ImportTarget.now.timeIntervalSince1970 * 1000) + 5000
    let changed = try await target.database.write { connection in
      try connection.run(
        Statement(
          "UPDATE registrations SET registered_at = $1, target = 'org.example.newer' WHERE user_uuid = $2",
          .integer(time), .text(ZulipRows.user(3))))
    }
    #expect(changed == 1)
    let report = try await target.importing(now: ImportTarget.now + 60).run(from: source.source)
    #expect(report.isComplete && report[.tokens][.mergedSpelling] == 0 && report[.tokens][.alreadyThere] > 1)
    let rows = try await target.database.read { connection in
      try connection.query(
        Statement(
          "SELECT registered_at, target FROM registrations WHERE wire = 2 AND user_uuid = $1",
          .text(ZulipRows.user(3))))
    }
    #expect(rows.map(\.values) == [[.integer(time), .text("org.example.newer")]])
  }

  @Test(arguments: DatabaseEngine.available) func `A dry run counts the same and writes nothing`(
    engine: DatabaseEngine
  ) async throws {
    let (source, target) = (try await ZulipBouncerDatabase(), try await ImportTarget(engine))
    func rehearse(_ target: ImportTarget) async throws -> ImportReport {
      try await ImportRun.rehearse(
        target: target.database, storageKey: ImportTarget.key, now: { ImportTarget.now + 50 }
      ) { try await $0.run(from: source.source) }
    }
    let before = try await rehearse(target)
    #expect(try await target.contents().isEmpty)
    #expect(try await target.importing().run(from: source.source) == before)
    let contents = try await target.contents()
    let after = try await rehearse(target)
    #expect(after[.tokens][.imported] == 0 && after[.tokens][.alreadyThere] > 0)
    #expect(try await target.contents() == contents)
    #expect(try await target.importing(now: ImportTarget.now + 99).run(from: source.source) == after)
  }

  @Test func `Refused rows are listed without their tokens`() async throws {
    let (source, target) = (try await ZulipBouncerDatabase(), try await ImportTarget())
    try await withTemporaryFolder { folder in
      let file = folder.appending(path: "rejects.csv")
      try Data().write(to: file)
      let report = try await target.importing(batch: 7).run(
        from: source.source, rejects: FileHandle(forWritingTo: file))
      let count = ZulipTable.allCases.reduce(0) { $0 + report[$1].refusals }
      let lines = try String(contentsOf: file, encoding: .utf8).split(separator: "\n").map(String.init)
      #expect(lines.first == "table,id,reason" && lines.count == count + 1 && Set(lines).count == lines.count)
      #expect(lines.contains("zilencer_remotezulipserver,6,no_key"))
      #expect(lines.contains("zilencer_remotepushdevice,6,wrong_token_id"))
      #expect(lines.contains("zilencer_remotepushdevicetoken,29,realm_of_another_server"))
      #expect(
        lines.dropFirst().allSatisfy { $0.hasPrefix("zilencer_") && $0.split(separator: ",").count == 3 })
    }
  }

  @Test func `A database of an older version is read as far as it goes`() async throws {
    let source = try await ZulipBouncerDatabase(
      """
      DROP TABLE zilencer_remotepushdevice;
      ALTER TABLE zilencer_remotepushdevicetoken DROP COLUMN remote_realm_id;
      DROP TABLE zilencer_remoterealm;
      ALTER TABLE zilencer_remotezulipserver DROP COLUMN last_merge_base;
      """)
    let target = try await ImportTarget()
    let report = try await target.importing().run(from: source.source)
    #expect(report.missing == [.realms, .devices])
    #expect(report[.tokens][.imported] > 10 && report[.tokens][.superseded] == 0)
    await #expect(throws: ZulipSourceError.self) {
      try await source.run("ALTER TABLE zilencer_remotepushdevicetoken RENAME COLUMN token TO tokens")
      _ = try await target.importing().run(from: source.source)
    }
  }

  @Test func `Tables in Zulip's own schema are found by other users`() async throws {
    let source = try await ZulipBouncerDatabase(
      "CREATE SCHEMA zulip;"
        + ZulipTable.allCases.map { "ALTER TABLE \($0.rawValue) SET SCHEMA zulip;" }.joined())
    let target = try await ImportTarget()
    #expect(try await target.importing().run(from: source.source)[.servers][.imported] == 7)
  }

  @Test func `What came since a run is brought in by the next`() async throws {
    let (source, target) = (try await ZulipBouncerDatabase(), try await ImportTarget())
    _ = try await target.importing().run(from: source.source)
    try await source.run(
      """
      INSERT INTO zilencer_remotepushdevicetoken (id, kind, token, last_updated, user_id, server_id)
      VALUES (900, 2, 'late', now(), 4, 4)
      """)
    #expect(try await target.importing().run(from: source.source)[.tokens][.imported] == 1)
  }

  @Test func `Two at a time do not get mixed up`() async throws {
    let (source, target) = (try await ZulipBouncerDatabase(), try await ImportTarget())
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<2 {
        group.addTask {
          let report = try await target.importing(batch: 2).run(from: source.source)
          #expect(report.isComplete)
        }
      }
      try await group.waitForAll()
    }
    let whole = try await ImportTarget()
    _ = try await whole.importing().run(from: source.source)
    #expect(try await target.contents() == whole.contents())
  }
}
