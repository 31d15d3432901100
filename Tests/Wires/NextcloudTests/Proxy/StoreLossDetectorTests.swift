import Foundation
import Logging
import ProviderSimulator
import Registrations
import SQL
import Sealing
import Synchronization
import TestSupport
import Testing

@testable import NextcloudProxy

@Suite("The lossDetector of the store")
struct StoreMemoryTests {
  private var bench: ProxyBench { Fixture.current }

  private let start = Date(timeIntervalSince1970: 1_790_000_000)

  private func state(_ id: UInt8, _ devices: Int64, removed: Int64 = 0) -> StoreState {
    .init(id: [UInt8](repeating: id, count: 16), devices: devices, removed: removed)
  }

  @Test(arguments: [0, 1, 1000] as [Int64])
  func `doubts nothing about the first store, whatever is in it`(devices: Int64) {
    var record = StoreRecord(state(1, devices))
    record.update(state(1, devices), at: start)
    #expect(!record.isDoubtful(at: start))
  }

  @Test(
    arguments: [
      (2, 1000, true), (2, 0, true), (1, 0, true), (1, 499, true), (1, 500, false), (1, 1000, false),
      (1, 5000, false),
    ] as [(UInt8, Int64, Bool)])
  func `doubts a store that was emptied or replaced, for an hour`(id: UInt8, devices: Int64, isLoss: Bool) {
    var record = StoreRecord(state(1, 1000))
    record.update(state(id, devices), at: start)
    #expect(record.isDoubtful(at: start) == isLoss)
    #expect(record.isDoubtful(at: start + 3599) == isLoss)
    #expect(!record.isDoubtful(at: start + 3600))
    // By a clock that was put back the hour begins again, but no later.
    #expect(record.isDoubtful(at: start - 7200) == isLoss)
    var again = record
    again.update(state(id, devices), at: start - 7200)
    #expect(again.isDoubtful(at: start - 3601) == isLoss)
    #expect(!again.isDoubtful(at: start - 3600))
    // Phones come back meanwhile; that makes it no less doubtful.
    record.update(state(id, devices + 10), at: start + 1800)
    #expect(record.isDoubtful(at: start + 3599) == isLoss)
    #expect(!record.isDoubtful(at: start + 3600))
  }

  @Test
  func `doubts another store even if there was no device yet at the last look`() {
    var record = StoreRecord(state(1, 0))
    record.update(state(2, 0), at: start)
    #expect(record.isDoubtful(at: start))
  }

  @Test
  func `counts the last device as lost when it goes by itself, and none when there was none`() {
    var record = StoreRecord(state(1, 1))
    record.update(state(1, 0), at: start)
    #expect(record.isDoubtful(at: start))
    record.update(state(1, 0), at: start + 7200)
    #expect(!record.isDoubtful(at: start + 7200))
  }

  @Test(
    arguments: [
      ("00000001", 0, nil), ("00000002", 0, .recovered), (nil, 0, nil), ("00000001", -1, .putBack),
      ("00000001", 60, nil),
    ] as [(String?, TimeInterval, StoreRecord.Loss?)])
  func `doubts a store that was recovered, or whose heartbeat went back`(
    timeline: String?, beat: TimeInterval, loss: StoreRecord.Loss?
  ) {
    var before = state(1, 5)
    before.timeline = "00000001"
    before.heartbeat = start
    var record = StoreRecord(before)
    var after = before
    after.timeline = timeline
    after.heartbeat = start + beat
    #expect(record.update(after, at: start + 60) == loss)
    #expect(record.isDoubtful(at: start + 60) == (loss != nil))
    #expect(record.update(after, at: start + 120) == nil)
  }

  @Test(arguments: [(300.0, false), (301, true)])
  func `doubts at the start a store that nothing has used for long, for it may be an older copy`(
    pause: TimeInterval, isDoubtful: Bool
  ) {
    var found = state(1, 5)
    found.heartbeat = start
    // The file came back together with the store.
    var record = StoreRecord(found)
    record.update(found, at: start + pause, after: pause)
    #expect(record.isDoubtful(at: start + pause) == isDoubtful)
  }

  @Test(
    arguments: [
      (0, 1000, false), (500, 500, false), (375, 250, false), (374, 250, true), (125, 750, false),
      (124, 750, true),
      (0, 5000, false),
    ] as [(Int64, Int64, Bool)])
  func `does not take for lost what was removed`(devices: Int64, removed: Int64, isLoss: Bool) {
    var record = StoreRecord(state(1, 1000, removed: 20))
    record.update(state(1, devices, removed: 20 + removed), at: start)
    #expect(record.isDoubtful(at: start) == isLoss)
  }

  @Test
  func `loses devices, not removals, where an earlier copy of the store is put back`() {
    var record = StoreRecord(state(1, 1000, removed: 20))
    record.update(state(1, 400, removed: 10), at: start)
    #expect(record.isDoubtful(at: start))
  }

  @Test(.bench, arguments: [true, false])
  func `tells servers at once of the only phone when it has gone as phones go`(isUninstalled: Bool)
    async throws
  {
    let phone = ProxyPhone()
    _ = try await phone.register(at: bench)
    try await bench.lossDetector.compare()
    if isUninstalled {
      bench.simulator.setToken(phone.token, TokenRule(status: 404, reason: "UNREGISTERED"))
    } else {
      #expect(try await phone.unregister(at: bench).status == 200)
    }
    #expect(try await bench.notify([phone.entry()]).unknown == [phone.identifierText])
    try await bench.lossDetector.compare()
    #expect(!(try await bench.lossDetector.isDoubtful()))
  }

  @Test(.bench)
  func `tells servers even in doubt of a phone that its provider declares dead`() async throws {
    bench.clock.stop()
    let phones = (0..<5).map { _ in ProxyPhone() }
    for phone in phones { _ = try await phone.register(at: bench) }
    var renewed = phones[1]
    renewed.token = ProxyPhone.App.talkAndroid.token
    _ = try await bench.notify([renewed.entry()])
    bench.clock.advance(3601)
    try await bench.lossDetector.compare()
    // The store has lost the other three.
    _ = try await bench.database.execute(
      Statement(
        """
        DELETE FROM registrations WHERE id IN (SELECT id FROM registrations WHERE wire = 3 ORDER BY id DESC LIMIT 3)
        """))
    #expect(try await bench.lossDetector.isDoubtful())
    bench.simulator.setToken(phones[0].token, TokenRule(status: 404, reason: "UNREGISTERED"))
    let answer = try await bench.notify([phones[4].entry(), renewed.entry(), phones[0].entry()])
    #expect(answer.unknown == [phones[0].identifierText] && answer.failed == 3)
    // Its row is gone with that. The store does not know it any more, as it does not know what it has lost.
    #expect(try await bench.notify([phones[0].entry()]).unknown == [])
    bench.clock.advance(3601)
    let later = try await bench.notify([phones[4].entry(), renewed.entry(), phones[0].entry()])
    #expect(later.unknown?.count == 3)
  }

  @Test(.bench, arguments: [true, false])
  func `knows the first devices at once, and all of them after a clean stop`(isStopped: Bool) async throws {
    try await bench.lossDetector.compare()
    for _ in 0..<(isStopped ? 3 : 1) { _ = try await ProxyPhone().register(at: bench) }
    if isStopped {
      let running = Task { await bench.lossDetector.run() }
      running.cancel()
      await running.value
    }
    // So many are left that only who knows of all can tell that some are lost.
    _ = try await bench.database.execute(
      Statement(
        "DELETE FROM registrations WHERE wire = 3 AND id > (SELECT MIN(id) FROM registrations WHERE wire = 3)"
      ))
    if !isStopped {
      _ = try await bench.database.execute(Statement("DELETE FROM registrations WHERE wire = 3"))
    }
    let restarted = StoreLossDetector(
      file: bench.folder.appending(path: "store.json"), database: bench.database, now: bench.devices.now,
      logger: bench.logger)
    #expect(try await restarted.isDoubtful())
  }

  /// As at a start: a phone registers while the database is compared for the first time.
  @Test(.bench)
  func `takes a comparison that was overtaken for no loss`() async throws {
    try await bench.lossDetector.compare()
    let overtaken = OvertakenDatabase(bench.database)
    let detector = StoreLossDetector(
      file: bench.folder.appending(path: "other.json"), database: overtaken, now: bench.devices.now,
      logger: bench.logger)
    overtaken.overtake { [bench] in
      _ = try await ProxyPhone().register(at: bench)
      try await detector.compare()
    }
    try await detector.compare()
    #expect(!overtaken.isToBeOvertaken)
    #expect(!(try await detector.isDoubtful()))
  }

  @Test
  func `survives a restart`() throws {
    var record = StoreRecord(state(1, 1000))
    #expect(StoreRecord(bytes: record.bytes) == record)
    record.update(state(2, 3), at: start)
    #expect(StoreRecord(bytes: record.bytes) == record)
  }

  @Test(arguments: [
    "", "{}", "[]", #"{"store":7,"devices":1}"#, #"{"store":"AA==","devices":-1}"#, "\u{0}",
  ])
  func `takes a file that is none for no file`(text: String) {
    #expect(StoreRecord(bytes: Array(text.utf8)) == nil)
  }

  @Test
  func `is kept beside the keys for nobody else to read, and knows another database by its id`() async throws
  {
    try await ProxyBench.test { old throws in
      let file = old.folder.appending(path: "store.json")
      _ = try await ProxyPhone().register(at: old)
      try await old.lossDetector.compare()
      let attributes = try FileManager.default.attributesOfItem(atPath: file.path)
      #expect(attributes[.posixPermissions] as? Int == 0o600)
      #expect(!(try await old.lossDetector.isDoubtful()))
      // The same database after a restart.
      let again = StoreLossDetector(
        file: file, database: old.database, now: old.devices.now, logger: old.logger)
      #expect(!(try await again.isDoubtful()))
      try await ProxyBench.test { new throws in
        let moved = StoreLossDetector(
          file: file, database: new.database, now: new.devices.now, logger: old.logger)
        #expect(try await moved.isDoubtful())
        let restarted = StoreLossDetector(
          file: file, database: new.database, now: new.devices.now, logger: old.logger)
        try await restarted.compare()
        #expect(try await restarted.isDoubtful())
        new.clock.advance(3601)
        #expect(!(try await restarted.isDoubtful()))
      }
    }
  }

  @Test(.bench)
  func `does without a file where none can be written`() async throws {
    let lossDetector = StoreLossDetector(
      file: bench.folder.appending(path: "nowhere/store.json"), database: bench.database,
      now: bench.devices.now, logger: bench.logger
    )
    #expect(!(try await lossDetector.isDoubtful()))
    _ = try await ProxyPhone().register(at: bench)
    try await lossDetector.compare()
    _ = try await bench.database.execute(Statement("DELETE FROM registrations WHERE wire = 3"))
    #expect(try await lossDetector.isDoubtful())
  }

  @Test(.bench)
  func `believes no clock that says too early that the hour is over`() async throws {
    let phones = [ProxyPhone(), ProxyPhone(), ProxyPhone()]
    for phone in phones { _ = try await phone.register(at: bench) }
    try await bench.lossDetector.compare()
    _ = try await bench.database.execute(Statement("DELETE FROM registrations WHERE wire = 3"))
    #expect(try await bench.notify([phones[0].entry()]).unknown == [])
    for hours in [25.0, -50.0] {
      bench.clock.isTrusted = false
      bench.clock.advance(hours * 3600)
      #expect(try await bench.notify([phones[0].entry()]).unknown == [])
    }
    // That the clock is right now does not make the loss a day younger than it is.
    bench.clock.isTrusted = true
    try await bench.lossDetector.compare()
    #expect(try await bench.notify([phones[0].entry()]).unknown == [])
    bench.clock.advance(3601)
    #expect(try await bench.notify([phones[0].entry()]).unknown == [phones[0].identifierText])
  }

  @Test(.bench)
  func `is not asked to count every device for each notification of a stranger`() async throws {
    for _ in 0..<3 { _ = try await ProxyPhone().register(at: bench) }
    try await bench.lossDetector.compare()
    #expect(try await bench.database.storeState(countingTo: 2).devices == 2)
    #expect(try await bench.database.storeState(countingTo: 0).devices == 0)
    #expect(!(try await bench.lossDetector.isDoubtful()))
    _ = try await bench.database.execute(
      Statement(
        "DELETE FROM registrations WHERE wire = 3 AND id > (SELECT MIN(id) FROM registrations WHERE wire = 3)"
      ))
    #expect(try await bench.lossDetector.isDoubtful())
  }
}

/// A database on which something happens between the first answer to a query and its caller's getting it.
private final class OvertakenDatabase: Database {
  private let database: any Database
  private let event = Mutex<(@Sendable () async throws -> Void)?>(nil)

  init(_ database: any Database) { self.database = database }

  var engine: DatabaseEngine { database.engine }
  var isToBeOvertaken: Bool { event.withLock { $0 != nil } }

  func overtake(_ event: @escaping @Sendable () async throws -> Void) {
    self.event.withLock { $0 = event }
  }

  func transaction(
    _ kind: TransactionKind, _ work: @escaping @Sendable (any Connection) throws -> Void
  ) async throws {
    try await database.transaction(kind, work)
  }

  func query(_ statement: Statement) async throws -> [Row] {
    let rows = try await database.query(statement)
    try await event.withLock { exchange(&$0, with: nil) }?()
    return rows
  }

  func execute(_ statement: Statement) async throws -> [Row] { try await database.execute(statement) }

  func close() async { await database.close() }
}
