import Foundation
import Registrations
import Storage
import TestDatabase
import Testing

@testable import Delivery
@testable import SQL

@Suite struct OutboxContentsTests {
  /// Two routes; of the first 700 entries for encrypted registrations and one for a legacy one, of the second two.
  private func fill(_ database: any Database) async throws {
    try await database.write { connection in
      for (id, provider) in [(1, "apns"), (2, "fcm")] {
        try connection.run(
          Statement(
            "INSERT INTO outbox_routes (id, provider, credential, target) VALUES ($1, $2, 'main', 'topic')",
            .integer(Int64(id)), .text(provider)))
      }
      let entries =
        (1...700).map { (route: 1, kind: 1, created: $0) } + [(1, 2, 5000), (2, 1, 6000), (2, 3, 7000)]
      for (route, kind, created) in entries {
        try connection.run(
          Statement(
            """
            INSERT INTO outbox (route_id, registration_id, registration_kind, registered_at, push, created_at, due_at,
              expires_at, attempts) VALUES ($1, 1, $2, 0, $3, $4, $5, $6, $7)
            """, .integer(Int64(route)), .integer(Int64(kind)), .bytes([1]), .integer(Int64(created)),
            .integer(Int64(created) + 10), .integer(Int64(created) + 20), .integer(Int64(created) % 7)))
      }
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `What waits is told by route and kind, and dropped by what was chosen`(_ engine: DatabaseEngine)
    async throws
  {
    try await TestDatabase.with(engine) { database in
      let contents = OutboxContents(database: database)
      var groups = try await contents.groups()
      #expect(groups.isEmpty)
      try await fill(database)
      groups = try await contents.groups()
      #expect(groups.map(\.count) == [700, 1, 1, 1])
      #expect(groups.map(\.provider) == ["apns", "apns", "fcm", "fcm"])
      #expect(groups.map(\.kind) == [.e2ee, .legacy, .e2ee, .nextcloud])
      #expect(groups[0].oldestAt == Date(milliseconds: 1) && groups[0].attempts == 6)
      #expect(groups[0].dueAt == Date(milliseconds: 11) && groups[0].expiresAt == Date(milliseconds: 21))

      var filter = OutboxContents.Filter()
      (filter.route, filter.kind) = ("apns:main", .nextcloud)
      var dropped = try await contents.drop(filter)
      #expect(dropped == 0)
      (filter.kind, filter.before) = (nil, Date(milliseconds: 651))
      var steps: [Int] = []
      dropped = try await contents.drop(filter) { steps.append($0) }
      #expect(dropped == 650 && steps == [500, 650])
      filter = OutboxContents.Filter()
      filter.kind = .e2ee
      dropped = try await contents.drop(filter)
      #expect(dropped == 51)
      groups = try await contents.groups()
      #expect(groups.map(\.kind) == [.legacy, .nextcloud])
      dropped = try await contents.drop(OutboxContents.Filter())
      #expect(dropped == 2)
    }
  }
}
