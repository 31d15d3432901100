import Foundation
import HTTP
import HTTPTypes
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
    _ id: Int64, realm: Int64? = 2, property: String = "messages_read::hour"
  ) -> AnalyticsUpload.Count {
    .init(
      remoteID: id, realmID: realm, property: property, subgroup: nil,
      endTime: Date(timeIntervalSince1970: 1), value: 5)
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
    ("an older count", { $0.realmCounts = [count(5)] }),
    ("a count twice", { $0.realmCounts = [count(7), count(7)] }),
    ("a count without an id", { $0.installationCounts = [count(0, realm: nil)] }),
    ("an older event", { $0.auditEvents = [event(4)] }),
    ("an older event of an unknown type", { $0.auditEvents = [event(4, type: 999)] }),
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
