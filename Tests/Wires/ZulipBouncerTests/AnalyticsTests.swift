import Foundation
import HTTP
import HTTPTypes
import Logging
import Registrations
import SQL
import TestService
import TestStore
import TestSupport
import Testing

@testable import ZulipBouncer

@Suite("server/analytics", .bouncer())
struct AnalyticsTests {
  private let bouncer = Fixture<Bouncer>.current

  private typealias Spoiling = @Sendable (inout AnalyticsUpload) -> Void

  private static func count(
    _ id: Int64, realm: Int64? = 2, property: String = "messages_read::hour", value: Int64 = 5
  ) -> AnalyticsUpload.Count {
    .init(
      remoteID: id, realmID: realm, property: property, subgroup: nil,
      endTime: Date(timeIntervalSince1970: 1), value: value)
  }

  private static func event(
    _ id: Int64, type: Int64 = 101, extraData: String? = "{}"
  ) -> AnalyticsUpload.AuditEvent {
    .init(
      remoteID: id, realmID: 2, eventType: type, eventTime: Date(timeIntervalSince1970: 1),
      isBackfilled: false, extraData: extraData)
  }

  private static func upload(
    _ realms: [RealmDescription]? = nil, version: String? = nil
  ) -> AnalyticsUpload {
    AnalyticsUpload(version: version, apiFeatureLevel: version == nil ? nil : 468, realms: realms)
  }

  private static func parsed(_ parameters: (String, String)...) throws -> AnalyticsUpload {
    let rows = [("realm_counts", "[]"), ("installation_counts", "[]")].filter { row in
      !parameters.contains { $0.0 == row.0 }
    }
    var parameters = HTTP.Parameters((rows + parameters).map { (name: $0, value: $1) })
    return try AnalyticsUpload(&parameters)
  }

  @Test
  func `keeps what a server tells of itself, and forgets what it tells no longer`() async throws {
    let (server, other) = (try await bouncer.remote(), try await bouncer.remote("other.example.org"))
    var upload = Self.upload(version: "12.0")
    upload.realmCounts = [
      Self.count(3), Self.count(7), Self.count(9, property: "invites_sent::day"),
    ]
    upload.installationCounts = [Self.count(4, realm: nil)]
    upload.auditEvents = [Self.event(11), Self.event(12, extraData: #"{"a":1}"#)]
    try await bouncer.parts.store(upload, of: server, logger: .quiet)
    #expect(
      try await bouncer.parts.lastReportIDs(of: server) == [
        .realmCounts: 7, .installationCounts: 4, .auditEvents: 12,
      ])
    let kept = try #require(try await bouncer.servers.find(uuid: server.uuid))
    #expect(kept.version == "12.0" && kept.apiFeatureLevel == 468)
    #expect(try await bouncer.servers.find(uuid: other.uuid)?.version == nil)
    #expect(kept.lastAuditLogUpdateAt == bouncer.clock.now)
    try await bouncer.parts.store(Self.upload(), of: server, logger: .quiet)
    #expect(try await bouncer.servers.find(uuid: server.uuid)?.version == nil)
    #expect(try await bouncer.parts.lastReportIDs(of: other)[.realmCounts] == 0)
  }

  private static let wrong: [(what: String, spoil: Spoiling)] = [
    ("a falling id", { $0.realmCounts = [count(7), count(6)] }),
    ("a count twice", { $0.realmCounts = [count(7), count(7)] }),
    ("a count without an id", { $0.installationCounts = [count(0, realm: nil)] }),
    ("an event twice", { $0.auditEvents = [event(7), event(7)] }),
    ("an event without an id", { $0.auditEvents = [event(0)] }),
    ("a falling id of an unknown type", { $0.auditEvents = [event(7), event(6, type: 999)] }),
    ("an id twice", { $0.realmCounts.append(count(6, property: "x")) }),
    ("an event without data", { $0.auditEvents?.append(event(7, extraData: nil)) }),
  ]

  @Test
  func `keeps nothing of an upload that is wrong somewhere`() async throws {
    let server = try await bouncer.remote()
    let theirs = RealmDescription.sample()
    try await bouncer.parts.store(
      Self.upload([theirs]), of: bouncer.remote("other.example.org"), logger: .quiet)
    var good = Self.upload([.sample()], version: "12.0")
    good.realmCounts = [Self.count(5)]
    good.auditEvents = [Self.event(5)]
    try await bouncer.parts.store(good, of: server, logger: .quiet)
    let before = try await bouncer.dump()

    var base = Self.upload([.sample()], version: "13.0")
    base.realmCounts = [Self.count(6)]
    base.installationCounts = [Self.count(1, realm: nil)]
    base.auditEvents = [Self.event(6)]
    func refusal(_ upload: AnalyticsUpload) async throws -> HTTPResponse.Status? {
      await #expect(throws: APIError.self) {
        try await bouncer.parts.store(upload, of: server, logger: .quiet)
      }?.status
    }
    for (what, spoil) in Self.wrong {
      var upload = base
      spoil(&upload)
      #expect(try await refusal(upload) == .badRequest, "\(what)")
      #expect(try await bouncer.dump() == before, "\(what)")
    }
    for realms in [[.sample(), theirs], Array(repeating: .sample(), count: 2)] {
      base.realms = realms
      #expect(try await refusal(base) == .badRequest)
      #expect(try await bouncer.dump() == before)
    }
  }

  /// Rows of each kind with these ids.
  private static func history(_ ids: ClosedRange<Int64>, value: Int64 = 5) -> AnalyticsUpload {
    var upload = upload(version: "12.0")
    upload.realmCounts = ids.map { count($0, value: value) }
    upload.installationCounts = ids.map { count($0, realm: nil, value: value) }
    upload.auditEvents = ids.map { event($0, extraData: #"{"a":\#(value)}"#) }
    return upload
  }

  private static func expectEachOnce(
    _ ids: ClosedRange<Int64>, of server: RemoteServer, at bouncer: Bouncer
  ) async throws {
    for table in Reports.List.allCases.map(\.table) {
      #expect(
        try await bouncer.rows(
          """
          SELECT COUNT(*), MIN(remote_id), MAX(remote_id) FROM \(table)
          WHERE server_id = \(server.id) AND remote_id IS NOT NULL
          """) == [[.integer(Int64(ids.count)), .integer(ids.lowerBound), .integer(ids.upperBound)]],
        "\(table)")
    }
    #expect(
      try await bouncer.rows("SELECT report_rows FROM remote_servers WHERE id = \(server.id)")
        == [[.integer(Int64(3 * ids.count))]])
  }

  @Test
  func `takes rows that are sent again, and counts each once`() async throws {
    let server = try await bouncer.remote()
    // The first report, the same, one that has more, one with a part of it, and one that stops earlier.
    for ids in [1...300, 1...300, 1...310, 200...250, 305...309] as [ClosedRange<Int64>] {
      try await bouncer.parts.store(Self.history(ids), of: server, logger: .quiet)
    }
    try await Self.expectEachOnce(1...310, of: server, at: bouncer)
    #expect(
      try await bouncer.parts.lastReportIDs(of: server) == [
        .realmCounts: 310, .installationCounts: 310, .auditEvents: 310,
      ])
  }

  /// As a stock server's worker and `register_server` do: both have asked how far reports have come, and send what comes after.
  @Test(arguments: [40, 700] as [Int64])
  func `takes the same report twice at the same time`(_ rows: Int64) async throws {
    for trial in 1...4 {
      let server = try await bouncer.remote("chat\(trial).example.org")
      var upload = Self.history(1...rows)
      // More than a part has.
      upload.realms = (0..<70).map { _ in
        var realm = RealmDescription.sample()
        realm.uuid = UUID()
        return realm
      }
      try await withThrowingTaskGroup { [upload] group in
        for _ in 1...2 {
          // Two nodes do not wait for each other's reports.
          group.addTask { try await bouncer.parts.store(upload, of: server, logger: .quiet) }
        }
        try await group.waitForAll()
      }
      try await Self.expectEachOnce(1...rows, of: server, at: bouncer)
      #expect(
        try await bouncer.rows("SELECT COUNT(*) FROM remote_realms WHERE server_id = \(server.id)") == [[70]])
    }
  }

  @Test
  func `answers 200 to a server's worker and to register_server at the same time`() async throws {
    let realm = UUID().uuidString.lowercased()
    let event =
      #"{"id":3,"realm":2,"event_time":1.5,"backfilled":false,"extra_data":"{\"a\":1}","event_type":101}"#
    let count = #"{"id":9,"realm":2,"property":"messages_read::hour","subgroup":null,"end_time":1,"value":5}"#
    let server = try await bouncer.server()
    let row = try #require(try await bouncer.servers.find(hostname: "chat.example.org"))
    let register = bouncer.analytics([bouncer.realmJSON(realm)]) + [("realmauditlog_rows", "[\(event)]")]
    var worker = register
    worker[0].1 = "[\(count)]"
    try await withThrowingTaskGroup { [worker] group in
      for form in [register, worker, register, worker] {
        group.addTask {
          let answer = try await bouncer.post("server/analytics", form, as: server)
          #expect(answer.isSuccess && answer.json["realms"]?[realm]?["can_push"] == true, "\(answer.text)")
        }
      }
      try await group.waitForAll()
    }
    #expect(
      try await bouncer.parts.lastReportIDs(of: row) == [
        .realmCounts: 9, .installationCounts: 0, .auditEvents: 3,
      ])
    #expect(try await bouncer.rows("SELECT report_rows FROM remote_servers") == [[2]])
  }

  @Test
  func `keeps the first of rows that differ, and says so once a day`() async throws {
    let log = LogRecorder()
    func warnings() -> [LogRecorder.Line] { log.lines.filter { $0.level == .warning } }
    let server = try await bouncer.remote()
    try await bouncer.parts.store(Self.history(1...3), of: server, logger: log.logger)
    try await bouncer.parts.store(Self.history(1...3), of: server, logger: log.logger)
    #expect(warnings().isEmpty)
    for _ in 1...3 {
      try await bouncer.parts.store(Self.history(2...5, value: 6), of: server, logger: log.logger)
    }
    #expect(
      warnings().map { "\($0.metadata["server"] ?? "") \($0.metadata["rows"] ?? "")" } == [
        "chat.example.org 6"
      ])
    try await Self.expectEachOnce(1...5, of: server, at: bouncer)
    for table in ["remote_realm_counts", "remote_installation_counts"] {
      #expect(
        try await bouncer.rows("SELECT value FROM \(table) ORDER BY remote_id") == [[5], [5], [5], [6], [6]])
    }
    #expect(
      try await bouncer.rows(
        "SELECT extra_data FROM remote_realm_audit_log WHERE remote_id IS NOT NULL ORDER BY remote_id")
        == [5, 5, 5, 6, 6].map { [.text(#"{"a":\#($0)}"#)] })
    bouncer.clock.advance(86_401)
    try await bouncer.parts.store(Self.history(2...5, value: 7), of: server, logger: log.logger)
    #expect(warnings().count == 2)
  }

  @Test
  func `keeps JSON compact and flags sorted, cuts a version, and takes no time beyond the calendar`() throws {
    let event =
      #"{"id":7,"realm":2,"event_time":1.5,"backfilled":false,"extra_data":"{\"a\": 1}","event_type":101}"#
    let realm = """
      {"id":1,"host":"h","url":"u","date_created":1.5,"deactivated":false,"uuid":"aa9c4b3e-5b6c-4d0f-8a7b-0123456789ab",\
      "authentication_methods":{"Email":true,"Dev":false},"uuid_owner_secret":"s"}
      """
    let version = "\"\(String(repeating: "1", count: 200))\""
    let upload = try Self.parsed(
      ("realmauditlog_rows", "[\(event)]"), ("realms", "[\(realm)]"), ("version", version))
    #expect(upload.auditEvents?.first?.extraData == #"{"a":1}"#)
    #expect(upload.realms?.first?.authenticationMethods == #"{"Dev":false,"Email":true}"#)
    #expect(upload.version?.count == 128)
    let count =
      #"{"property":"messages_read::hour","realm":2,"id":5,"end_time":1e300,"subgroup":null,"value":3}"#
    let refusal = #expect(throws: APIError.self) { try Self.parsed(("realm_counts", "[\(count)]")) }
    #expect(refusal?.message == #"realm_counts[0]["end_time"] is not a valid time"#)
  }

  @Test
  func `refuses texts that are longer than any server's, and keeps nothing of them`() async throws {
    let server = try await bouncer.server()
    let realm = bouncer.realmJSON(UUID().uuidString.lowercased())
    func longest(_ name: String, _ value: JSON) -> (String, String) {
      guard case .object(var object) = realm else { return ("realms", "[]") }
      object[name] = value
      return ("realms", JSON.array([.object(object)]).text)
    }
    func text(_ bytes: Int) -> JSON { .string(String(repeating: "x", count: bytes)) }
    func methods(_ bytes: Int) -> JSON { [String(repeating: "x", count: bytes - 9): true] }
    func count(_ bytes: Int) -> (String, String) {
      let subgroup = String(repeating: "x", count: bytes)
      return (
        "realm_counts",
        #"[{"id":1,"realm":2,"property":"messages_read::hour","subgroup":"\#(subgroup)","end_time":1790000000,"value":5}]"#
      )
    }
    func event(_ bytes: Int) -> (String, String) {
      let extra = String(repeating: "x", count: bytes - 8)
      return (
        "realmauditlog_rows",
        #"[{"id":1,"realm":2,"event_type":101,"event_time":1790000000,"backfilled":false,"extra_data":{"a":"\#(extra)"}}]"#
      )
    }
    let before = try await bouncer.dump()
    let cases: [(field: String, taken: (String, String), refused: (String, String), limit: Int)] = [
      ("name", longest("name", text(255)), longest("name", text(256)), 255),
      ("host", longest("host", text(255)), longest("host", text(256)), 255),
      (
        "authentication_methods", longest("authentication_methods", methods(1024)),
        longest("authentication_methods", methods(1025)), 1024
      ),
      ("subgroup", count(255), count(256), 255), ("extra_data", event(2048), event(2049), 2048),
    ]
    func form(_ field: (String, String)) -> [(String, String)] {
      let others = [("realm_counts", "[]"), ("installation_counts", "[]")]
      return others.filter { $0.0 != field.0 } + [field]
    }
    for (field, _, refused, limit) in cases {
      let refusal = try await bouncer.post("server/analytics", form(refused), as: server)
      #expect(refusal.status == 400, "\(field)")
      #expect(
        refusal.message?.contains(field) == true
          && refusal.message?.contains("too long (limit: \(limit) bytes)") == true, "\(refusal.text)")
    }
    #expect(try await bouncer.dump() == before)
    for (field, taken, _, _) in cases {
      let answer = try await bouncer.post("server/analytics", form(taken), as: server)
      #expect(answer.isSuccess, "\(field): \(answer.text)")
    }
  }

  @Test
  func `ignores what a newer server knows, and keeps the rest`() async throws {
    let server = try await bouncer.remote()
    let count = { (id: Int, property: String, more: String) in
      #"{"id":\#(id),"realm":2,"property":"\#(property)","subgroup":null,"end_time":1,"value":5\#(more)}"#
    }
    let realm = """
      {"id":1,"host":"h","url":"u","date_created":1,"deactivated":false,"uuid":"aa9c4b3e-5b6c-4d0f-8a7b-0123456789ab",\
      "org_type":33,"authentication_methods":{"Email":{"enabled":true}},"uuid_owner_secret":"s","description":"d"}
      """
    let upload = try Self.parsed(
      (
        "realm_counts",
        "[\(count(1, "messages_read::hour", #","more":1"#)),\(count(2, "invented::day", "")),"
          + #"{"id":3,"property":"invented::hour"}]"#
      ), ("installation_counts", "[\(count(1, "invites_sent::day", ""))]"),
      (
        "realmauditlog_rows",
        #"[{"id":1,"event_type":999},{"id":2,"realm":2,"event_type":101,"event_time":1,"backfilled":false,"extra_data":null}]"#
      ), ("realms", "[\(realm)]"))
    #expect(
      Dictionary(uniqueKeysWithValues: upload.additions.counts.map { ("\($0.kind) \($0.text)", $1) }) == [
        "member realm_counts[].more": 1, "value realm_counts[].property: invented::day": 1,
        "value realm_counts[].property: invented::hour": 1, "value realmauditlog_rows[].event_type: 999": 1,
        "value realms[].org_type: 33": 1, "member realms[].description": 1,
      ])
    try await bouncer.parts.store(upload, of: server, logger: .quiet)
    #expect(try await bouncer.rows("SELECT remote_id FROM remote_realm_counts") == [[.integer(1)]])
    #expect(
      try await bouncer.rows("SELECT event_type FROM remote_realm_audit_log WHERE remote_id IS NOT NULL")
        == [[.integer(101)]])
    #expect(
      try await bouncer.rows("SELECT org_type, authentication_methods FROM remote_realms")
        == [[.integer(33), .text(#"{"Email":{"enabled":true}}"#)]])
  }

  @Test
  func `takes no more than 16 MiB`() async throws {
    let huge = try await bouncer.call(
      "server/analytics", authorization: try await bouncer.server().header,
      type: "application/x-www-form-urlencoded", body: [UInt8](repeating: 0x61, count: 16 << 20 + 1))
    #expect(huge.status == 413)
  }
}
