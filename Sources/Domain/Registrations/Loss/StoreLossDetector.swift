package import Foundation
package import Logging
internal import Platform
package import SQL
internal import Synchronization
internal import Timing

/// Detects that the database was lost, replaced, or put back to an earlier state. Servers are then not told that a device
/// is unknown: it may be known to the lost database, and a server that is told so forgets the device.
///
/// It compares the database with a record of it, which is kept in memory and in a file beside the keys. If a whole machine
/// is restored, so is the file; then only the database's heartbeat is old.
package final class StoreLossDetector: Sendable {
  private static let interval = Duration.seconds(60)
  /// Maximum number of devices that a call counts. Once a minute all are counted.
  private static let mostCounted: Int64 = 1000

  private struct State {
    var record: StoreRecord?
    /// How often this process has compared the database with the record.
    var comparisons = 0
    /// Whether the operator was warned that the file cannot be written.
    var hasWarned = false
  }

  private let file: URL
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
    state = Mutex(State(record: (try? Data(contentsOf: file)).flatMap { StoreRecord(bytes: [UInt8]($0)) }))
  }

  /// Compares periodically until the task is cancelled, and once more then, so that the record is up to date
  /// after a restart.
  package func run() async {
    await every(Self.interval) {
      try await compare()
    } onError: { error in
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
    if let record {
      if isDoubtful(record) { return true }
      let most = min(record.leastExpected(removed: record.state.removed), Self.mostCounted)
      let found = try await database.storeState(countingTo: most)
      if hasCompared, record.loss(in: found, countedTo: most) == nil { return false }
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
      let comparisons = state.withLock(\.comparisons)
      let found = try await database.storeState()
      // What was read before another comparison would look like a database that was put back.
      if let record = try await compare(found, readAfter: comparisons) { return record }
    }
  }

  /// Returns nil, and changes nothing, if there were more comparisons since the database was read.
  private func compare(_ found: StoreState, readAfter comparisons: Int) async throws -> StoreRecord? {
    let now = now()
    let machineTime = machineTime()
    let compared = state.withLock { state -> (StoreRecord?, StoreRecord, StoreRecord.Loss?)? in
      guard state.comparisons == comparisons else { return nil }
      let before = state.record
      var record = before ?? StoreRecord(found)
      let pause = comparisons > 0 ? nil : found.heartbeat.map { machineTime.timeIntervalSince($0) }
      let loss = record.update(found, at: now, after: pause ?? 0)
      state.record = record
      state.comparisons += 1
      return (before, record, loss)
    }
    guard let (before, after, loss) = compared else { return nil }
    if let loss, after.isDoubtful(at: now) {
      logger.log(
        level: loss == .unused ? .notice : .warning,
        "\(loss.sentence): for an hour no server is told that a device is unknown",
        metadata: ["devices": "\(after.state.devices)", "before": "\(before?.state.devices ?? 0)"])
    }
    try await database.beat(at: machineTime)
    // Without the file, the record in memory lasts until the next start.
    if after != before, !write(after), state.withLock({ !exchange(&$0.hasWarned, with: true) }) {
      logger.warning("\(file.lastPathComponent) cannot be written into the folder of the keys")
    }
    return after
  }

  /// Replaces the file; returns false on failure.
  private func write(_ record: StoreRecord) -> Bool {
    (try? PrivateFile.write(record.bytes, to: file.path, replacing: true)) != nil
  }
}
