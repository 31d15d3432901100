import Delivery
import Foundation
import Providers
import SQL
import TestStore
import TestSupport
import Testing

@testable import Registrations
@testable import Sealing
@testable import ZulipServer

@Suite("Sealed columns") struct SealedColumnTests {
  /// The columns whose values say which device a notification goes to or who can read it, and what they are.
  private static let everything: Set<String> = [
    "e2ee token one", "e2ee token two", "legacy false 0 old token one", "legacy false 1 old token two",
    "legacy true 0 old token one", "legacy true 1 old token two", "nextcloud 0 token one",
    "nextcloud 1 token two", "token 0 token one", "token 1 token two", "device 0", "device 1", "key 0 true",
    "key 1 true", "secret 0", "secret 1", "job gone one", "job gone two", "vapid",
    "key one", "key two", "next key one", "next key two", "[\"one\"]", "[\"two\"]", "form one", "form two",
    "gateway 0 gateway-token-of-app-one", "gateway 1 gateway-token-of-app-two", "body 0 0", "body 1 1",
    "subscription 0 https://push.example.org/0", "subscription 1 https://push.example.org/1",
  ]

  private static func rest(_ readable: Set<String>) -> Set<String> {
    readable.filter { !$0.hasPrefix("notification") }
  }

  @Test
  func `hold what the program writes, each value bound to the row it stands in`() async throws {
    let rows = try await SealedRows()
    for column in SealedColumn.allCases {
      let values = try await rows.values(of: column)
      #expect(values.count >= 2, "\(column.rawValue)")
      for (index, (value, place)) in values.enumerated() {
        #expect(rows.store.storageKey.open(value, at: place) != nil, "\(column.rawValue)")
        for (other, (_, elsewhere)) in values.enumerated() where other != index {
          #expect(rows.store.storageKey.open(value, at: elsewhere) == nil, "\(column.rawValue)")
        }
      }
    }
    let readable = try await rows.readable()
    #expect(Self.rest(readable) == Self.everything)
    #expect(readable.count == Self.everything.count + 2)
  }

  @Test
  func `whose values somebody has exchanged between two rows are read in neither, and nothing is removed`()
    async throws
  {
    let rows = try await SealedRows()
    let counts = try await counts(rows)
    for column in SealedColumn.allCases { try await rows.swap(column) }
    let readable = try await rows.readable()
    #expect(readable.isEmpty, "\(readable)")
    #expect(try await self.counts(rows) == counts)
    for column in SealedColumn.allCases { try await rows.swap(column) }
    #expect(Self.rest(try await rows.readable()) == Self.everything)
  }

  @Test
  func
    `whose row gets another identity are sealed anew: what waits for an old registration goes with its device`()
    async throws
  {
    let rows = try await SealedRows()
    let user = try #require(LegacyUser(id: nil, uuid: SealedRows.uuid(0)))
    let token = try PushToken("old token one", kind: .fcm)
    let old = try #require(try await rows.store.registrations.find(token, of: user, server: rows.server.id))
      .reference
    let database = rows.store.database
    let push = rows.store.storageKey.seal("waiting", at: Outbox.place(of: old.id))
    _ = try await database.execute(
      Statement(
        "UPDATE outbox SET wire = 2, registration_id = $1, registered_at = $2, push = $3 WHERE route_id = 1",
        .integer(old.id), .integer(old.registeredAt.milliseconds), .bytes(push)))
    rows.store.clock.advance(5)
    try await rows.store.registrations.register(token, iosAppID: nil, realm: rows.realm.id, bouncerKey: "key")
    let recipients = try await rows.store.registrations.recipients(
      of: user, server: rows.server.id, realm: rows.realm)
    #expect(recipients.superseded == [.fcm: 1])
    let entry = try #require(
      try await database.read {
        try $0.query(
          Statement("SELECT wire, registration_id, push, registered_at FROM outbox WHERE route_id = 1")
        ).first
      })
    #expect(try entry.int64("wire") == 1)
    // What becomes of it concerns the new registration.
    #expect(try entry.date("registered_at") == old.registeredAt + 5)
    #expect(
      rows.store.storageKey.openText(
        try entry.bytes("push"), at: Outbox.place(of: try entry.int64("registration_id")))
        == "waiting")
  }

  @Test
  func `of devices whose key does not open keep what is there until the app sends another key`() async throws
  {
    let rows = try await SealedRows()
    let id = try #require(try await rows.devices.snapshot(user: rows.users[0].id).devices.first).id
    try await rows.swap(.pushKey)
    func device() async throws -> Device {
      try #require(try await rows.devices.snapshot(user: rows.users[0].id).devices.first)
    }
    let job = try #require(
      try await rows.devices.leaseJobs(limit: 9, for: 60).first { $0.device == id })
    try await rows.devices.finish(job)
    #expect(try await device().state.tokenID != nil)
    #expect(try await device().pushKey == nil)
    try await rows.swap(.pushKey)
    #expect(try await device().pushKey != nil)
    try await rows.swap(.pushKey)
    _ = try await rows.devices.register(
      .init(key: .init(id: 2, key: .generate()), token: nil), device: id, user: rows.users[0].id)
    #expect(try await device().pushKey != nil)
  }

  private func counts(_ rows: SealedRows) async throws -> [[Value]] {
    let tables = Set(SealedColumn.allCases.map(\.table)).sorted()
    return try await rows.store.rows(
      tables.map { "SELECT '\($0)', COUNT(*) FROM \($0)" }.joined(separator: " UNION ALL ") + " ORDER BY 1")
  }
}
