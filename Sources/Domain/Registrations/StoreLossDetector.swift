import Basics
package import Foundation
package import Logging
import Platform
package import SQL
import Synchronization

/// Detects that the database was lost, replaced, or put back to an earlier state. Servers are then not told that a device
/// is unknown: it may be known to the lost database, and a server that is told so forgets the device.
///
/// It compares the database with a record of it, which is kept in memory and in a file beside the keys. If a whole machine
/// is restored, so is the file; then only the database's heartbeat is old.
///
/// However young the copy is that was put back: each `Keys` folder has a mark in the database, a number that rises at each
/// start, at each clean stop, once a minute, and soon after a new registration. The file has the number before the database
/// has it. So a database with a lower one went back; or the process was killed between the two, or could not write any
/// more, and then the hour of doubt is needless and harmless. Each folder has a mark of its own, so that what one node
/// writes into a database that went back does not hide it from another. What one finds, it writes there for all.
package final class StoreLossDetector: Sendable {
  /// How often it is seen whether there are new registrations.
  private static let interval = Duration.seconds(5)
  /// How often the database is compared even if there are none, in these intervals.
  private static let rounds = 12
  /// Maximum number of devices that a call counts. Once a minute all are counted.
  private static let mostCounted: Int64 = 1000

  private struct State {
    var record: StoreRecord?
    /// How often this process has compared the database with the record.
    var comparisons = 0
    /// How often it has changed the record; what was read from the database before a change cannot be compared with it.
    var changes = 0
    /// Whether the file is there, as far as this process knows.
    var isWritten: Bool
    /// Whether the operator was warned that the file cannot be written.
    var hasWarned = false
  }

  private let file: URL
  /// The id of the file's folder.
  private let folder: [UInt8]
  private let database: any Database
  private let now: @Sendable () -> Date
  /// The machine's own time, which heartbeats are written with.
  private let machineTime: @Sendable () -> Date
  /// Whether anything may be treated as expired; false while the clock is in doubt.
  package let isClockTrusted: @Sendable () -> Bool
  private let logger: Logger
  private let state: Mutex<State>

  /// - Parameters:
  ///   - file: in the `Keys` folder; it may not exist yet.
  ///   - machineTime: the machine's own time, if it differs from `now`, as in trials with another date.
  package init(
    file: URL, database: any Database, now: @escaping @Sendable () -> Date,
    machineTime: (@Sendable () -> Date)? = nil,
    isClockTrusted: @escaping @Sendable () -> Bool = { true }, logger: Logger
  ) {
    self.file = file
    self.database = database
    self.now = now
    self.machineTime = machineTime ?? now
    self.isClockTrusted = isClockTrusted
    self.logger = logger
    let record = StoreRecord(at: file)
    folder = record?.folder ?? StoreRecord.newFolder()
    state = Mutex(State(record: record, isWritten: record != nil))
  }

  /// The database that was served before, if this one is another and the operator has not said that it is right.
  package var earlier: StoreRecord.Earlier? { state.withLock { $0.record?.earlier } }

  /// Compares periodically until the task is cancelled, and once more then, so that the record is up to date
  /// after a restart.
  package func run() async {
    var (round, newest) = (0, Int64(-1))
    await every(Self.interval) {
      round += 1
      let found = try await database.newestRegistration()
      guard found != newest || round % Self.rounds == 1 else { return }
      try await compare()
      newest = found
    } onError: { error in
      guard round % Self.rounds == 1 else { return }
      logger.warning(
        "the database could not be compared with its record",
        metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
    _ = try? await compare()
  }

  /// Records the first registered devices at once: until then a loss could not be detected.
  package func registered() async {
    guard state.withLock({ $0.record?.state.devices ?? 0 }) == 0 else { return }
    _ = try? await compare()
  }

  /// Whether an unknown device may be one that the database has lost. Compares the database with the record first,
  /// and counts as few devices as possible.
  package func isDoubtful() async throws -> Bool {
    let (record, hasCompared) = state.withLock { ($0.record, $0.comparisons > 0) }
    if var record {
      if isDoubtful(record) { return true }
      let most = min(record.leastExpected(removed: record.state.removed), Self.mostCounted)
      let found = try await database.storeState(countingTo: most, markedBy: folder)
      if hasCompared, record.loss(in: found, countedTo: most) == nil {
        record.adopt(found.lostAt, at: now())
        return isDoubtful(record)
      }
    }
    return isDoubtful(try await compare())
  }

  private func isDoubtful(_ record: StoreRecord) -> Bool {
    record.isDoubtful(at: now()) || record.lostAt != nil && !isClockTrusted()
  }

  /// Compares the database with the record, and updates both.
  @discardableResult
  package func compare() async throws -> StoreRecord {
    while true {
      let changes = state.withLock(\.changes)
      let found = try await database.storeState(markedBy: folder)
      // What was read before a change of the record would look like a database that was put back.
      if let record = try await compare(found, readAfter: changes) { return record }
    }
  }

  /// Returns nil, and changes nothing, if the record has changed since the database was read.
  private func compare(_ found: StoreState, readAfter changes: Int) async throws -> StoreRecord? {
    let now = now()
    let machineTime = machineTime()
    let isFileThere = FileManager.default.fileExists(atPath: file.path)
    let compared = state.withLock { state -> (StoreRecord?, StoreRecord, StoreRecord.Loss?)? in
      guard state.changes == changes else { return nil }
      let before = state.record
      var record = before ?? StoreRecord(found, folder: folder)
      // That is how the operator says that this database is the right one.
      if state.isWritten, !isFileThere { record.confirm() }
      let pause = state.comparisons > 0 ? nil : found.heartbeat.map { machineTime.timeIntervalSince($0) }
      let loss = record.update(found, at: now, after: pause ?? 0)
      state.record = record
      state.comparisons += 1
      state.changes += 1
      return (before, record, loss)
    }
    guard let (before, after, loss) = compared else { return nil }
    log(loss, before, after, at: now)
    let mark = max(before?.state.mark ?? 0, found.mark) + 1
    let isWritten = write(after.marked(mark))
    let hasToWarn = state.withLock { state in
      state.isWritten = isWritten
      return !isWritten && !exchange(&state.hasWarned, with: true)
    }
    // Without the file, the record in memory lasts until the next start.
    if hasToWarn {
      logger.warning("\(file.lastPathComponent) cannot be written into the folder of the keys")
    }
    try await database.beat(
      at: machineTime, mark: isWritten ? (folder, mark) : nil, lostAt: loss == nil ? nil : now)
    state.withLock { state in
      guard isWritten, let record = state.record else { return }
      state.record = record.marked(mark)
      state.changes += 1
    }
    return after
  }

  private func log(_ loss: StoreRecord.Loss?, _ before: StoreRecord?, _ after: StoreRecord, at now: Date) {
    guard let loss, after.isDoubtful(at: now) else { return }
    let isOther = loss == .replaced && after.earlier != nil
    var metadata: Logger.Metadata = [
      "devices": "\(after.state.devices)", "before": "\(before?.state.devices ?? 0)",
    ]
    if isOther { metadata["advice"] = .stringConvertible(StoreRecord.Earlier.advice) }
    logger.log(
      level: isOther ? .error : loss == .unused ? .notice : .warning,
      "\(loss.sentence): for an hour no server is told that a device is unknown", metadata: metadata)
  }

  /// Replaces the file; returns false on failure.
  private func write(_ record: StoreRecord) -> Bool {
    (try? PrivateFile.write(record.bytes, to: file.path, replacing: true)) != nil
  }
}
