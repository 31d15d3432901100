import Foundation
import NextcloudProxy
import SQL
import Storage
import TestStore
import Testing

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
  func `binds values of before to their rows, a few at a time, and then finds nothing more to do`()
    async throws
  {
    let rows = try await SealedRows()
    let resealing = Resealing(database: rows.store.database, storageKey: rows.store.storageKey)
    let readable = try await rows.readable()
    try await rows.unbind()
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
    #expect(try await rows.readable().count == 2)
  }

  @Test
  func `leaves what does not open as it is, and counts it`() async throws {
    let rows = try await SealedRows()
    try await rows.unbind()
    let values = try await rows.values(of: .e2eeToken).map(\.value)
    let broken = values[0].map { $0 ^ 1 }
    try await rows.replace(.e2eeToken, [(values[0], broken)])
    let resealing = Resealing(database: rows.store.database, storageKey: rows.store.storageKey)
    let pass = try await pass(resealing)
    #expect(pass.count.unreadable == 1)
    #expect(try await resealing.finish(pass))
    #expect(try await rows.values(of: .e2eeToken).map(\.value).contains(broken))
    #expect(resealing.unopened["e2ee_registrations.token"] == 1)
  }

  @Test
  func `never puts an old value over one that has come meanwhile, and begins anew under a key that has come`()
    async throws
  {
    let rows = try await SealedRows()
    let (database, key) = (rows.store.database, rows.store.storageKey)
    try await rows.unbind()
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
                destination: .init(.fcm, app: "Talk", target: nil)))
          }
        }
      }
      group.addTask { for _ in 0..<30 { _ = try await pass(resealing, limit: 1) } }
      try await group.waitForAll()
    }
    let devices = try await rows.nextcloud.lookup([0, 1].map(SealedRows.identifier))
    #expect(Set(devices.compactMap(\.token)) == ["one 100", "two 100"])

    let begun = try await pass(resealing)
    let both = try #require(StorageKeyFile(Base64.encode([UInt8](repeating: 7, count: 32)))).addingKey()
    #expect(key.take(both))
    #expect(key.seal(withKey: both.ids[1]))
    #expect(try await !resealing.finish(begun))
    #expect(try await pass(resealing).count.resealed == values(rows).count)
    #expect(key.take(try #require(both.keepingKey(both.ids[1]))))
    #expect(try await rows.readable().count == 23)
  }
}
