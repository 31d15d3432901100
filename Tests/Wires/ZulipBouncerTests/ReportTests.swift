import Basics
import Foundation
import HTTP
import HTTPTypes
import Registrations
import SQL
import Synchronization
import TestService
import TestStore
import TestSupport
import Testing

@testable import ZulipBouncer

@Suite("Reports")
struct ReportTests {
  private static func report(_ ids: ClosedRange<Int64>, at date: Date) -> AnalyticsUpload {
    var upload = AnalyticsUpload(version: "12.0", apiFeatureLevel: 468, realms: nil)
    upload.realmCounts = ids.map {
      .init(
        remoteID: $0, realmID: 2, property: "messages_read::hour", subgroup: nil, endTime: date, value: 5)
    }
    return upload
  }

  /// The same as a server sends it.
  private static func form(_ ids: ClosedRange<Int64>) -> [(String, String)] {
    let rows = ids.map {
      #"{"id":\#($0),"realm":2,"property":"messages_read::hour","subgroup":null,"end_time":1790000000,"value":5}"#
    }
    return [("realm_counts", "[" + rows.joined(separator: ",") + "]"), ("installation_counts", "[]")]
  }

  private static func realms(_ count: Int) -> [RealmDescription] {
    (0..<count).map { index in
      var realm = RealmDescription.sample()
      (realm.uuid, realm.name) = (UUID(), "Realm \(index)")
      return realm
    }
  }

  private static func last(_ bouncer: Bouncer, _ server: RemoteServer) async throws -> Int64? {
    try await bouncer.parts.lastReportIDs(of: server)[.realmCounts]
  }

  private static func count(_ bouncer: Bouncer, _ table: String = "remote_realm_counts") async throws -> Int64
  {
    guard case .integer(let count) = try await bouncer.rows("SELECT COUNT(*) FROM \(table)")[0][0] else {
      return -1
    }
    return count
  }

  /// One for each of PostgreSQL's connections, and one more.
  private static let servers = 9

  @Test
  func `with long texts count as more rows`() async throws {
    try await Bouncer.test(adjust: {
      $0.reports = ReportIntake(RateLimit(calls: 10, seconds: 3600), burst: 1, now: $0.now)
    }) { bouncer in
      func events(_ ids: ClosedRange<Int>, _ bytes: Int) -> [(String, String)] {
        let extra = String(repeating: "x", count: bytes - 8)
        let rows = ids.map {
          #"{"id":\#($0),"realm":2,"event_type":101,"event_time":1790000000,"backfilled":false,"extra_data":{"a":"\#(extra)"}}"#
        }
        return [
          ("realm_counts", "[]"), ("installation_counts", "[]"),
          ("realmauditlog_rows", "[" + rows.joined(separator: ",") + "]"),
        ]
      }
      // One of 1,000 bytes counts as four.
      for (bytes, status) in [(100, 200), (1000, 503)] {
        let server = try await bouncer.server("chat\(bytes).example.org")
        for ids in [1...2, 3...5] {
          #expect(try await bouncer.post("server/analytics", events(ids, bytes), as: server).isSuccess)
        }
        let next = try await bouncer.post("server/analytics", events(6...6, bytes), as: server)
        #expect(next.status == status, "\(bytes)")
      }
    }
  }

  enum Long: CaseIterable { case rows, realms }

  @Test(arguments: Long.allCases)
  func `that are long leave the database to others between their parts`(_ long: Long) async throws {
    try await Bouncer.test { bouncer in
      var servers: [RemoteServer] = []
      for index in 0..<Self.servers { servers.append(try await bouncer.remote("s\(index).example.org")) }
      let honest = try await bouncer.server()
      let under = Number(servers.count)
      var answered = 0
      try await withThrowingTaskGroup(of: Void.self) { group in
        for server in servers {
          group.addTask {
            defer { under.add(-1) }
            let upload =
              switch long {
              case .rows: Self.report(1...10_000, at: bouncer.clock.now)
              case .realms:
                AnalyticsUpload(version: nil, apiFeatureLevel: nil, realms: Self.realms(1000))
              }
            try await bouncer.parts.store(upload, of: server, logger: .quiet)
          }
        }
        // So many are enough, and fewer than a server may make in a minute.
        while under.value > 0, answered < 200 {
          let form = [("user_id", "\(answered)"), ("token", "token\(answered)"), ("token_kind", "2")]
          #expect(try await bouncer.post("push/register", form, as: honest).isSuccess)
          answered += 1
        }
        try await group.waitForAll()
      }
      // Where each report is one transaction, no more come between them than there are reports.
      #expect(answered > Self.servers, "\(answered) registrations beside \(Self.servers) reports")
      #expect(
        try await Self.count(bouncer, long == .rows ? "remote_realm_counts" : "remote_realms")
          == Int64(Self.servers * (long == .rows ? 10_000 : 1000)))
    }
  }

  @Test
  func `of a few servers are read at a time, one of each, and no server waits for another's second`()
    async throws
  {
    try await Bouncer.test { bouncer in
      let (loud, louder, quiet) = (
        try await bouncer.remote("a.example.org"), try await bouncer.remote("b.example.org"),
        try await bouncer.server("c.example.org")
      )
      let places = bouncer.parts.reports.places
      let (held, door) = AsyncStream.makeStream(of: Void.self)
      try await withThrowingTaskGroup(of: Void.self) { group in
        let first = Number(0)
        for (server, turns) in [(loud, 1), (louder, 2)] {
          for _ in 0..<2 {
            group.addTask {
              try await places.acquire(1, of: server.id)
              defer { places.release(1, of: server.id) }
              first.add(1)
              for await _ in held {}
            }
          }
          await eventually("each server's second one waits") {
            first.value == turns && places.waiting == turns
          }
        }
        group.addTask {
          let answer = try await bouncer.post("server/analytics", Self.form(1...3), as: quiet)
          #expect(answer.isSuccess)
        }
        await eventually("it waits") { places.waiting == 3 }
        door.finish()
        try await group.waitForAll()
      }
      #expect(try await Self.count(bouncer) == 3)
    }
  }

  @Test
  func `that are more than is kept go on where they ended, and lose nothing`() async throws {
    let clock = TestClock()
    try await Bouncer.test(
      clock: clock,
      adjust: { bouncer in
        bouncer.reports = ReportIntake(
          RateLimit(calls: 100, seconds: 3600), burst: 3, now: { clock.now })
      }
    ) { bouncer in
      let (server, other) = (try await bouncer.server(), try await bouncer.server("other.example.org"))
      let row = try #require(try await bouncer.servers.find(hostname: "chat.example.org"))
      var begin: Int64 = 1
      var refusals = 0
      while begin <= 1500, refusals < 20 {
        let answer = try await bouncer.post("server/analytics", Self.form(begin...1500), as: server)
        let last = try #require(try await Self.last(bouncer, row))
        #expect(try await Self.count(bouncer) == last)
        if answer.isSuccess {
          #expect(last == 1500)
        } else {
          refusals += 1
          let wait = try #require(answer.headers[.retryAfter].flatMap(Double.init))
          #expect((answer.status, answer.code) == (503, "SERVICE_UNAVAILABLE"))
          #expect(
            answer.message == """
              A server reports more here than is kept: \(last + 1 - begin) of \(1501 - begin) rows of this report are. \
              Send the rest after \(Int(wait)) seconds
              """)
          // Before then nothing goes on.
          #expect(
            try await bouncer.post("server/analytics", Self.form(last + 1...1500), as: server).status == 503)
          #expect(try await Self.last(bouncer, row) == last)
          bouncer.clock.advance(wait)
        }
        begin = last + 1
      }
      #expect(refusals > 2 && begin == 1501)
      // What is sent again does not count.
      bouncer.clock.advance(36_000)
      for _ in 1...10 {
        #expect(try await bouncer.post("server/analytics", Self.form(1...1500), as: server).isSuccess)
      }
      // Another server is not held up.
      #expect(try await bouncer.post("server/analytics", Self.form(1...100), as: other).isSuccess)
    }
  }

  @Test
  func `that are older than a year go, how far they have come stays`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.remote()
      let reports = Reports(database: bouncer.database)
      let (old, new) = (bouncer.clock.now - 366 * 86_400, bouncer.clock.now)
      var upload = Self.report(1...300, at: old)
      upload.realms = [.sample()]
      upload.auditEvents = [
        .init(remoteID: 4, realmID: 2, eventType: 101, eventTime: old, isBackfilled: false, extraData: "{}")
      ]
      try await bouncer.parts.store(upload, of: server, logger: .quiet)
      try await bouncer.parts.store(Self.report(301...310, at: new), of: server, logger: .quiet)
      #expect(try await bouncer.rows("SELECT report_rows FROM remote_servers") == [[311]])
      func remove(_ limit: Int = 100) async throws -> Int {
        try await reports.remove(before: bouncer.clock.now - 365 * 86_400, limit: limit)
      }
      #expect(try await remove() == 100)
      #expect(try await remove(1000) == 201)
      #expect(try await remove() == 0)
      #expect(try await Self.count(bouncer) == 10)
      #expect(try await bouncer.rows("SELECT report_rows FROM remote_servers") == [[10]])
      #expect(
        try await reports.lastIDs(of: server.id) == [
          .realmCounts: 310, .installationCounts: 0, .auditEvents: 4,
        ])
      #expect(try await Self.count(bouncer, "remote_realm_audit_log") == 0)
      // What has gone does not come back.
      try await bouncer.parts.store(Self.report(5...6, at: new), of: server, logger: .quiet)
      #expect(try await Self.count(bouncer) == 10)
    }
  }

  @Test
  func `that are too many of one server go, the oldest first, and none of another's`() async throws {
    try await Bouncer.test { bouncer in
      let (server, other) = (try await bouncer.remote(), try await bouncer.remote("other.example.org"))
      let reports = Reports(database: bouncer.database)
      let now = bouncer.clock.now
      for hour in 0..<10 {
        let (first, date) = (Int64(hour * 100 + 1), now + Double(hour * 3600))
        var upload = Self.report(first...first + 99, at: date)
        upload.auditEvents = [
          .init(
            remoteID: first, realmID: 2, eventType: 101, eventTime: date, isBackfilled: false, extraData: "{}"
          )
        ]
        try await bouncer.parts.store(upload, of: server, logger: .quiet)
      }
      try await bouncer.parts.store(Self.report(1...500, at: now), of: other, logger: .quiet)
      var removed = 0
      while true {
        let count = try await reports.remove(before: now, most: 600, limit: 150)
        removed += count
        if count < 150 { break }
      }
      #expect(removed == 410)
      #expect(
        try await bouncer.rows("SELECT report_rows FROM remote_servers ORDER BY id") == [[600], [500]])
      // What is left is the newest, to within the rows that go at a time.
      let oldest = try await bouncer.rows(
        "SELECT MIN(remote_id) FROM remote_realm_counts WHERE server_id = \(server.id)")
      #expect(oldest[0][0].int > 300, "\(oldest)")
      #expect(try await Self.last(bouncer, server) == 1000)
    }
  }

  @Test
  func `stay until the upstream bouncer has them, and no more are taken than it can be given`() async throws {
    try await Bouncer.test(["upstream.url": "http://127.0.0.1:9"]) { bouncer in
      let server = try await bouncer.remote()
      try await bouncer.enableUpstream()
      let reports = Reports(database: bouncer.database, isRemovable: UpstreamLinks.isAccepted)
      let old = bouncer.clock.now - 366 * 86_400
      try await bouncer.parts.store(Self.report(1...10, at: old), of: server, logger: .quiet)
      func remove(most: Int64 = 100) async throws -> Int {
        try await reports.remove(before: bouncer.clock.now - 365 * 86_400, most: most, limit: 100)
      }
      #expect(try await remove() == 0)
      #expect(try await remove(most: 5) == 0)
      _ = try await bouncer.database.execute("UPDATE upstream_links SET given_realm_count_id = 4")
      #expect(try await remove() == 4)
      #expect(try await bouncer.rows("SELECT MIN(remote_id) FROM remote_realm_counts") == [[5]])
      _ = try await bouncer.database.execute(
        "UPDATE remote_servers SET report_rows = $1", .integer(2 * Reports.mostRows))
      let full = await #expect(throws: APIError.self) {
        try await bouncer.parts.store(Self.report(11...12, at: old), of: server, logger: .quiet)
      }
      #expect(full?.status == .serviceUnavailable)
      #expect(try await Self.last(bouncer, server) == 10)
    }
  }

  @Test
  func `with long lists of realms are applied in parts as in one`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.remote()
      var realms = Self.realms(700)
      func report() async throws {
        let upload = AnalyticsUpload(version: nil, apiFeatureLevel: nil, realms: realms)
        try await bouncer.parts.store(upload, of: server, logger: .quiet)
      }
      try await report()
      #expect(try await Self.count(bouncer, "remote_realms") == 700)
      let gone = realms[0..<300]
      realms.removeFirst(300)
      for index in realms.indices { realms[index].name += "!" }
      try await report()
      #expect(try await Self.count(bouncer, "remote_realms WHERE is_locally_deleted = 1") == 300)
      #expect(try await Self.count(bouncer, "remote_realms WHERE name LIKE '%!'") == 400)
      #expect(try await Self.count(bouncer, "remote_realm_audit_log") == 700)
      #expect(try await bouncer.rows("SELECT report_rows FROM remote_servers") == [[700]])
      realms.append(contentsOf: gone)
      try await report()
      #expect(try await Self.count(bouncer, "remote_realms WHERE is_locally_deleted = 1") == 0)
      realms.append(realms[0])
      let twice = await #expect(throws: APIError.self) { try await report() }
      #expect(twice?.message.hasPrefix("Duplicate registration detected.") == true)
    }
  }

  @Test
  func `do not give a server more realms than it can have`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.remote()
      let sync = RealmSync(storageKey: bouncer.parts.storageKey, now: { bouncer.clock.now }, most: 10)
      func list(_ count: Int) async throws {
        let realms = Self.realms(count)
        _ = try await bouncer.database.write { try sync.apply(realms, server: server.id, on: $0) }
      }
      try await list(6)
      // Those that are gone count, too: their UUIDs stay the server's.
      await #expect(throws: RealmSync.TooManyRealms.self) { try await list(5) }
      try await list(4)
      #expect(try await Self.count(bouncer, "remote_realms") == 10)
    }
  }
}

private final class Number: Sendable {
  private let number: Atomic<Int>

  init(_ value: Int) { number = Atomic(value) }

  var value: Int { number.load(ordering: .relaxed) }
  func add(_ count: Int) { number.add(count, ordering: .relaxed) }
}

extension Value {
  fileprivate var int: Int64 { if case .integer(let number) = self { number } else { -1 } }
}
