import Foundation
import Registrations
import SQL
import TestStore
import Testing

@testable import NextcloudProxy
@testable import Sealing

@Suite("Sealing anew") struct ResealingTests {
  private func pass(_ resealing: Resealing, limit: Int = 500) async throws -> Resealing.Pass {
    var pass = resealing.pass()
    while !pass.isAtEnd { try await resealing.step(&pass, limit: limit) }
    return pass
  }

  private func values(_ rows: SealedRows) async throws -> [[UInt8]] {
    var all: [[UInt8]] = []
    for column in SealedColumn.allCases { all += try await rows.values(of: column).map(\.value) }
    return all
  }

  @Test
  func `seals under the present key, a few at a time, and then finds nothing more to do`()
    async throws
  {
    let rows = try await SealedRows()
    let resealing = Resealing(database: rows.store.database, storageKey: rows.store.storageKey)
    let readable = try await rows.readable()
    try rows.addKey()
    let total = try await values(rows).count
    #expect(try await !resealing.isComplete)
    for limit in [1, 500] {
      let pass = try await pass(resealing, limit: limit)
      #expect(pass.count.resealed == (limit == 1 ? total : 0))
      #expect(pass.count.missed + pass.count.unreadable == 0)
      #expect(try await resealing.finish(pass))
      #expect(try await resealing.isComplete)
    }
    #expect(try await values(rows).allSatisfy(rows.store.storageKey.isPresent))
    #expect(try await rows.readable() == readable)
    for column in SealedColumn.allCases { try await rows.swap(column) }
    #expect(try await rows.readable().isEmpty)
  }

  @Test
  func `leaves what does not open as it is, and counts it`() async throws {
    let rows = try await SealedRows()
    try rows.addKey()
    let values = try await rows.values(of: .registrationToken).map(\.value)
    let broken = values[0].map { $0 ^ 1 }
    try await rows.replace(.registrationToken, [(values[0], broken)])
    let resealing = Resealing(database: rows.store.database, storageKey: rows.store.storageKey)
    let pass = try await pass(resealing)
    #expect(pass.count.unreadable == 1)
    #expect(try await resealing.finish(pass))
    #expect(try await rows.values(of: .registrationToken).map(\.value).contains(broken))
    #expect(resealing.unopened["registrations.token"] == 1)
  }

  @Test
  func `is not done where another process has changed a value meanwhile`() async throws {
    let rows = try await SealedRows()
    let key = rows.store.storageKey
    try rows.addKey()
    let shared = SharedDatabase(own: rows.store.database) {
      try await rows.nextcloud.register(
        .init(
          identifier: SealedRows.identifier(0), userKey: [1, 2, 3], token: "another",
          tokenHash: [UInt8](repeating: 9, count: 64),
          destination: .init(kind: .fcm, app: "Talk", target: nil)))
    }
    let resealing = Resealing(database: shared, storageKey: key)
    let interrupted = try await pass(resealing)
    #expect(interrupted.count.missed == 1)
    #expect(try await !resealing.finish(interrupted))
    #expect(try await !resealing.isComplete)
    let alone = try await pass(Resealing(database: shared.own, storageKey: key))
    #expect(alone.count.missed == 0)
    #expect(try await resealing.finish(alone))
    #expect(try await rows.nextcloud.lookup([SealedRows.identifier(0)]).map(\.token) == ["another"])
  }

  @Test
  func `never puts an old value over one that has come meanwhile, and begins anew under a key that has come`()
    async throws
  {
    let rows = try await SealedRows()
    let (database, key) = (rows.store.database, rows.store.storageKey)
    let two = try rows.addKey()
    let resealing = Resealing(database: database, storageKey: key)
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask {
        // The same phones come again and again: with other apps each time, which the last one tells.
        for number in 0...100 {
          for name in SealedRows.names {
            try await rows.nextcloud.register(
              .init(
                identifier: SealedRows.identifier(name == "one" ? 0 : 1), userKey: [1, 2, 3],
                token: "\(name) \(number)", tokenHash: [UInt8](repeating: 9, count: 64),
                destination: .init(kind: .fcm, app: "Talk", target: nil)))
          }
        }
      }
      group.addTask { for _ in 0..<30 { _ = try await pass(resealing, limit: 1) } }
      try await group.waitForAll()
    }
    let devices = try await rows.nextcloud.lookup([0, 1].map(SealedRows.identifier))
    #expect(Set(devices.compactMap(\.token)) == ["one 100", "two 100"])

    let begun = try await pass(resealing)
    let three = try rows.addKey(to: #require(two.keepingKey(key.presentID)))
    #expect(try await !resealing.finish(begun))
    #expect(try await pass(resealing).count.resealed == values(rows).count)
    #expect(key.take(try #require(three.keepingKey(key.presentID))))
    #expect(try await rows.readable().count == 31)
  }
}

/// A database that another process changes whenever this one has read something.
private struct SharedDatabase: Database {
  let own: any Database
  let change: @Sendable () async throws -> Void

  var engine: DatabaseEngine { own.engine }

  func query(_ statement: Statement) async throws -> [Row] {
    let rows = try await own.query(statement)
    try await change()
    return rows
  }

  func transaction(
    _ kind: TransactionKind, _ work: @escaping @Sendable (any Connection) throws -> Void
  ) async throws {
    try await own.transaction(kind, work)
  }

  func rowsAtOnce(_ statement: Statement) -> [Row]? { nil }
  func execute(_ statement: Statement) async throws -> [Row] { try await own.execute(statement) }
  func close() async { await own.close() }
}
