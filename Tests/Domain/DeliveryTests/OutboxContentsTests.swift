import Basics
import Foundation
import HTTPClient
import Providers
import Registrations
import Sealing
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
            INSERT INTO outbox (route_id, registration_id, wire, registered_at, push, created_at, due_at,
              expires_at, attempts) VALUES ($1, 1, $2, 0, $3, $4, $5, $6, $7)
            """, .integer(Int64(route)), .integer(Int64(kind)), .bytes([1]), .integer(Int64(created)),
            .integer(Int64(created) + 10), .integer(Int64(created) + 20), .integer(Int64(created) % 7)))
      }
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `Of push services those are told for which most waits, and all can be dropped`(
    _ engine: DatabaseEngine
  ) async throws {
    try await TestDatabase.with(engine) { database in
      try await fill(database)
      try await database.write { connection in
        for host in 1...14 {
          try connection.run(
            Statement(
              "INSERT INTO outbox_routes (id, provider, credential, target) VALUES ($1, 'webpush', $2, '')",
              .integer(Int64(100 + host)), .text("push.\(host).example")))
          for _ in 0..<host {
            try connection.run(
              Statement(
                """
                INSERT INTO outbox (route_id, registration_id, wire, registered_at, push, created_at,
                  due_at, expires_at, attempts) VALUES ($1, 1, 1, 0, $2, 0, 0, 0, 1)
                """, .integer(Int64(100 + host)), .bytes([1])))
          }
        }
      }
      let contents = OutboxContents(database: database)
      var listing = try await contents.listing()
      #expect(listing.groups.map(\.count) == [700, 1, 1, 1] + (5...14).reversed())
      #expect(listing.count == 703 + 105 && listing.oldestAt == Date(milliseconds: 0))
      #expect(listing.servicesLeft == 4 && listing.entriesLeft == 10)
      var filter = OutboxContents.Filter()
      filter.route = "webpush:push.14.example"
      #expect(try await contents.listing(filter).count == 14)
      var dropped = try await contents.drop(filter)
      #expect(dropped == 14)
      filter.route = "webpush"
      dropped = try await contents.drop(filter)
      #expect(dropped == 91)
      listing = try await contents.listing()
      #expect(listing.count == 703 && listing.servicesLeft == 0 && listing.entriesLeft == 0)
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `The chat servers over their pace are named, with what waits for that`(_ engine: DatabaseEngine)
    async throws
  {
    try await TestDatabase.with(engine) { database in
      let servers = RemoteServers(
        database: database, storageKey: StorageKey(bytes: [UInt8](repeating: 7, count: 32)), now: { Date() })
      var ids: [Int64] = []
      for name in ["a.example.org", "b.example.org", "c.example.org"] {
        ids.append(try await servers.add(hostname: try Hostname(name), contactEmail: "").server.id)
      }
      let contents = OutboxContents(database: database)
      #expect(try await contents.serversOverPace().isEmpty)
      // Of the first two wait on one route, of the second three on two; the third has to wait for its provider.
      let owners: [(Owner, String?, Int)] = [
        (.chatServer(ids[0]), "serverOverPace", 2), (.chatServer(ids[1]), "serverOverPace", 1),
        (.chatServer(ids[1]), "serverOverPace", 2), (.chatServer(ids[2]), "timeout", 4),
        (.address(ids[2]), "serverOverPace", 5), (.chatServer(ids[2]), nil, 1),
      ]
      try await database.write { connection in
        for (route, (owner, reason, count)) in owners.enumerated() {
          try connection.run(
            Statement(
              """
              INSERT INTO outbox_routes (id, provider, credential, target, owner)
              VALUES ($1, 'apns', 'main', $2, $3)
              """, .integer(Int64(route + 1)), .text("topic \(route)"), .integer(owner.id)))
          for _ in 0..<count {
            try connection.run(
              Statement(
                """
                INSERT INTO outbox (route_id, registration_id, wire, registered_at, push, created_at, due_at,
                  expires_at, attempts, reason) VALUES ($1, 1, 1, 0, $2, 0, 0, 0, 1, $3)
                """, .integer(Int64(route + 1)), .bytes([1]), .text(reason)))
          }
        }
      }
      let found = try await contents.serversOverPace()
      #expect(found.map(\.hostname) == ["b.example.org", "a.example.org"] && found.map(\.waiting) == [3, 2])
      #expect(found.map(\.id) == [ids[1], ids[0]])
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `What waits is told by route and kind, and dropped by what was chosen`(_ engine: DatabaseEngine)
    async throws
  {
    try await TestDatabase.with(engine) { database in
      let contents = OutboxContents(database: database)
      var groups = try await contents.listing().groups
      #expect(groups.isEmpty)
      try await fill(database)
      groups = try await contents.listing().groups
      #expect(groups.map(\.count) == [700, 1, 1, 1])
      #expect(groups.map(\.provider) == ["apns", "apns", "fcm", "fcm"])
      #expect(groups.map(\.wire) == [.e2ee, .legacy, .e2ee, .nextcloud])
      #expect(groups[0].oldestAt == Date(milliseconds: 1) && groups[0].attempts == 6)
      #expect(groups[0].dueAt == Date(milliseconds: 11) && groups[0].expiresAt == Date(milliseconds: 21))

      var filter = OutboxContents.Filter()
      (filter.route, filter.wire) = ("apns:main", .nextcloud)
      var dropped = try await contents.drop(filter)
      #expect(dropped == 0)
      (filter.wire, filter.before) = (nil, Date(milliseconds: 651))
      var steps: [Int] = []
      dropped = try await contents.drop(filter) { steps.append($0) }
      #expect(dropped == 650 && steps == [500, 650])
      filter = OutboxContents.Filter()
      filter.wire = .e2ee
      dropped = try await contents.drop(filter)
      #expect(dropped == 51)
      groups = try await contents.listing().groups
      #expect(groups.map(\.wire) == [.legacy, .nextcloud])
      dropped = try await contents.drop(OutboxContents.Filter())
      #expect(dropped == 2)
    }
  }
}
