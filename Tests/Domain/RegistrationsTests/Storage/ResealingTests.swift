import Platform
import SQL
import Synchronization
import TestStore
import Testing

@testable import Registrations
@testable import Sealing

@Suite("Sealing anew") struct ResealingTests {
  private static let other = StorageKey(
    StorageKeyFile(Base64.encode([UInt8](repeating: 7, count: 32)))!.successor())  // 32 bytes are a key.

  /// Changes the key, and back.
  private func reseal(_ rows: SealedRows, isBack: Bool = false, batch: Int) async throws -> (
    count: Resealing.Count, progress: [String]
  ) {
    let keys = [rows.store.storageKey, Self.other]
    let (old, new) = isBack ? (keys[1], keys[0]) : (keys[0], keys[1])
    let database = rows.store.database
    try await StorageSeal.verify(old, of: database)
    _ = try await database.write { try StorageSeal.begin(from: old, to: new, on: $0) }
    let progress = Mutex<[String]>([])
    let count = try await Resealing(database: database, from: old, to: new, batch: batch).run { done, all in
      progress.withLock { $0.append("\(done)/\(all)") }
    }
    try await database.write { try StorageSeal.finish(new, on: $0) }
    return (count, progress.withLock(\.self))
  }

  private func values(_ rows: SealedRows) async throws -> [[UInt8]] {
    var all: [[UInt8]] = []
    for column in SealedColumn.allCases { all += try await rows.values(of: column).map(\.value) }
    return all
  }

  @Test(arguments: [1, 2, 500])
  func `changes every value, a few at a time, and says how many are done`(_ batch: Int) async throws {
    let rows = try await SealedRows()
    let readable = try await rows.readable()
    let total = try await values(rows).count
    let there = try await reseal(rows, batch: batch)
    #expect(there.count.resealed == total && there.count.unreadable == 0)
    #expect(there.progress.last == "\(total)/\(total)")
    #expect(batch > 1 || there.progress.prefix(2) == ["1/\(total)", "2/\(total)"])
    #expect(try await values(rows).allSatisfy(Self.other.hasSealed))
    #expect(try await reseal(rows, isBack: true, batch: batch).count.resealed == total)
    // Those that take something have taken it.
    #expect(try await rows.readable().isSubset(of: readable))
    for column in SealedColumn.allCases { try await rows.swap(column) }
    #expect(try await rows.readable().isEmpty)
  }

  @Test
  func `leaves what does not open as it is, counts it, and does nothing twice`() async throws {
    let rows = try await SealedRows()
    let values = try await rows.values(of: .registrationToken).map(\.value)
    let broken = values[0].map { $0 ^ 1 }
    try await rows.replace(.registrationToken, [(values[0], broken)])
    let (database, old) = (rows.store.database, rows.store.storageKey)
    _ = try await database.write { try StorageSeal.begin(from: old, to: Self.other, on: $0) }
    let resealing = Resealing(database: database, from: old, to: Self.other)
    let first = try await resealing.run { _, _ in }
    #expect(first.resealed > 0 && first.unreadable == 1)
    #expect(old.failures["registrations.token"] == 1)
    let second = try await resealing.run { _, _ in }
    #expect(second.resealed == 0 && second.unreadable == 1)
    #expect(try await rows.values(of: .registrationToken).map(\.value).contains(broken))
  }

  @Test
  func `changes nothing in a database that is not being changed to this key`() async throws {
    let rows = try await SealedRows()
    let before = try await values(rows)
    let resealing = Resealing(database: rows.store.database, from: rows.store.storageKey, to: Self.other)
    await #expect(throws: StorageSeal.WrongKey.self) { try await resealing.run { _, _ in } }
    #expect(try await values(rows) == before)
  }
}
