import Foundation
import Logging
import SQL
import Synchronization
import TestSupport
import Testing

@testable import NextcloudProxy
@testable import Registrations

/// A database that went back by moments, and those that did not.
@Suite struct StoreMarkTests {
  private var bench: ProxyBench { Fixture.current }

  private func detector(_ file: String = "store.json", on database: (any Database)? = nil, log: Logger? = nil)
    -> StoreLossDetector
  {
    StoreLossDetector(
      file: bench.folder.appending(path: file), database: database ?? bench.database, now: bench.devices.now,
      machineTime: { Date() }, logger: log ?? bench.logger)
  }

  /// Ends a process in order.
  private func stop(_ detector: StoreLossDetector) async {
    let running = Task { await detector.run() }
    running.cancel()
    await running.value
  }

  /// What a copy of the database has.
  private struct Copy {
    let metadata: [[Value]]
    let newest: Int64

    init(of database: any Database) async throws {
      metadata = try await database.query("SELECT name, value FROM metadata").map(\.values)
      newest = try await database.newestRegistration()
    }

    func putBack(to database: any Database) async throws {
      try await database.write { connection in
        try connection.run("DELETE FROM metadata")
        for row in metadata {
          try connection.run(
            Statement("INSERT INTO metadata (name, value) VALUES ($1, $2)", arguments: row))
        }
        try connection.run("DELETE FROM registrations WHERE id > $1", .integer(newest))
      }
    }
  }

  @Test(.bench, arguments: [true, false])
  func `A copy of a moment ago is noticed when it is put back`(isStopped: Bool) async throws {
    for _ in 0..<4 { _ = try await ProxyPhone().register(at: bench) }
    let first = detector()
    try await first.compare()
    let copy = try await Copy(of: bench.database)
    let phone = ProxyPhone()
    _ = try await phone.register(at: bench)
    // After a kill it is what the process has left soon after the registration.
    if isStopped { await stop(first) } else { try await first.compare() }
    try await copy.putBack(to: bench.database)
    #expect(try await detector().isDoubtful())
    // The hour lasts beyond another restart, and no longer.
    #expect(try await detector().isDoubtful())
    bench.clock.advance(3601)
    #expect(try await !detector().isDoubtful())
  }

  @Test(.bench) func `A copy that is put back under a service is noticed at once`() async throws {
    for _ in 0..<4 { _ = try await ProxyPhone().register(at: bench) }
    try await bench.lossDetector.compare()
    let copy = try await Copy(of: bench.database)
    let phone = ProxyPhone()
    _ = try await phone.register(at: bench)
    try await bench.lossDetector.compare()
    try await copy.putBack(to: bench.database)
    let receipt = try await bench.notify([phone.entry()])
    #expect(receipt.unknown == [] && receipt.failed == 1)
  }

  @Test(.bench) func `A mark follows soon after a registration, and not each of them`() async throws {
    let detector = detector()
    let running = Task { await detector.run() }
    let file = bench.folder.appending(path: "store.json")
    await eventually { StoreRecord(at: file)?.state.mark == 1 }
    for _ in 0..<20 { _ = try await ProxyPhone().register(at: bench) }
    await eventually { StoreRecord(at: file)?.state.mark ?? 0 > 1 }
    // The registrations may have straddled two rounds.
    #expect(StoreRecord(at: file)?.state.mark ?? 0 < 5)
    running.cancel()
    await running.value
  }

  @Test(.bench) func `Who is killed at any moment and started again doubts nothing`() async throws {
    for _ in 0..<4 { _ = try await ProxyPhone().register(at: bench) }
    for _ in 0..<3 {
      let next = detector()
      #expect(try await !next.isDoubtful())
      _ = try await ProxyPhone().register(at: bench)
      try await next.compare()
      _ = try await ProxyPhone().register(at: bench)
    }
  }

  @Test(.bench) func `Who is killed between the file and the database doubts for an hour, once`() async throws
  {
    for _ in 0..<4 { _ = try await ProxyPhone().register(at: bench) }
    try await detector().compare()
    await #expect(throws: DatabaseError.self) {
      try await detector(on: UnmarkedDatabase(bench.database)).compare()
    }
    // A copy from before would look the same.
    #expect(try await detector().isDoubtful())
    bench.clock.advance(3601)
    for _ in 0..<2 { #expect(try await !detector().isDoubtful()) }
  }

  @Test(.bench) func `An outage of the database is no loss, however long it lasts`() async throws {
    let database = UnmarkedDatabase(bench.database)
    let detector = detector(on: database)
    for _ in 0..<3 {
      await #expect(throws: DatabaseError.self) { try await detector.compare() }
    }
    database.isAway = false
    #expect(try await !detector.isDoubtful())
    try await detector.compare()
    #expect(try await !detector.isDoubtful())
    #expect(try await !self.detector().isDoubtful())
  }

  @Test(.bench) func `What one node writes hides nothing from another, and what one finds all know`()
    async throws
  {
    for _ in 0..<4 { _ = try await ProxyPhone().register(at: bench) }
    let (first, second) = (detector("first.json"), detector("second.json"))
    try await first.compare()
    try await second.compare()
    await stop(first)
    let copy = try await Copy(of: bench.database)
    _ = try await ProxyPhone().register(at: bench)
    await stop(second)
    try await copy.putBack(to: bench.database)
    // This one has seen nothing of what is lost.
    let restarted = detector("first.json")
    for _ in 0..<3 { try await restarted.compare() }
    #expect(try await !restarted.isDoubtful())
    #expect(try await detector("second.json").isDoubtful())
    #expect(try await restarted.isDoubtful())
    #expect(try await detector("new.json").isDoubtful())
    bench.clock.advance(3601)
    for file in ["first.json", "second.json", "new.json"] {
      #expect(try await !detector(file).isDoubtful(), "\(file)")
    }
  }

  @Test(.bench) func `Nodes with one copy of the Keys folder doubt nothing`() async throws {
    try await detector("first.json").compare()
    let folder = bench.folder
    try FileManager.default.copyItem(
      at: folder.appending(path: "first.json"), to: folder.appending(path: "second.json"))
    let (first, second) = (detector("first.json"), detector("second.json"))
    for _ in 0..<3 {
      #expect(try await !first.compare().isDoubtful(at: bench.clock.now))
      #expect(try await !second.compare().isDoubtful(at: bench.clock.now))
    }
  }

  @Test(.bench) func `A loss that a clock has dated into the future lasts no longer`() async throws {
    try await detector().compare()
    try await bench.database.beat(at: Date(), lostAt: bench.clock.now + 86_400)
    #expect(try await !detector().isDoubtful())
  }

  @Test(.bench) func `No mark is left where the file cannot be written`() async throws {
    for _ in 0..<3 { try await detector("nowhere/store.json").compare() }
    let marks = try await bench.database.query("SELECT name FROM metadata WHERE name LIKE 'store_mark%'")
    #expect(marks.isEmpty)
  }

  @Test(.bench) func `Another database is told of until the one before is back`() async throws {
    let log = LogRecorder()
    let file = bench.folder.appending(path: "store.json")
    try await detector().compare()
    let id = try #require(StoreRecord(at: file)?.state.id)
    try await bench.database.execute("UPDATE metadata SET value = $1 WHERE name = 'store'", .bytes([1, 2]))
    let other = detector(log: log.logger)
    try await other.compare()
    #expect(other.earlier?.id == id && StoreRecord(at: file)?.expectedID == id)
    let line = try #require(log.lines.first { $0.level == .error })
    #expect(line.message.hasPrefix("the database was replaced"))
    #expect("\(line.metadata["advice"] ?? "")".contains("remove store.json"))
    // A day and a restart later it still is not the right one.
    bench.clock.advance(86_400)
    let restarted = detector()
    try await restarted.compare()
    #expect(restarted.earlier?.id == id)
    try await bench.database.execute("UPDATE metadata SET value = $1 WHERE name = 'store'", .bytes(id))
    let back = detector()
    try await back.compare()
    #expect(back.earlier == nil)
    #expect(try await back.isDoubtful())
  }

  @Test(.bench) func `Another database is the right one once the operator has removed the record`()
    async throws
  {
    let file = bench.folder.appending(path: "store.json")
    try await detector().compare()
    try await bench.database.execute("UPDATE metadata SET value = $1 WHERE name = 'store'", .bytes([1, 2]))
    let other = detector()
    try await other.compare()
    #expect(other.earlier != nil)
    try FileManager.default.removeItem(at: file)
    try await other.compare()
    #expect(other.earlier == nil && StoreRecord(at: file)?.expectedID == [1, 2])
    // The phones that only the other one knows have their hour nevertheless.
    #expect(try await other.isDoubtful())
    #expect(try await detector().isDoubtful())
  }
}

/// A database that dies before the mark is written.
private final class UnmarkedDatabase: Database {
  private let database: any Database
  private let away = Mutex(true)

  init(_ database: any Database) { self.database = database }

  var isAway: Bool {
    get { away.withLock(\.self) }
    set { away.withLock { $0 = newValue } }
  }

  var engine: DatabaseEngine { database.engine }

  func transaction(
    _ kind: TransactionKind, _ work: @escaping @Sendable (any Connection) throws -> Void
  ) async throws {
    try await database.transaction(kind, work)
  }

  func query(_ statement: Statement) async throws -> [Row] { try await database.query(statement) }

  func execute(_ statement: Statement) async throws -> [Row] {
    if isAway, statement.arguments.contains(.text("store_heartbeat")) {
      throw DatabaseError(.io, "it is away")
    }
    return try await database.execute(statement)
  }

  func close() async { await database.close() }
}
