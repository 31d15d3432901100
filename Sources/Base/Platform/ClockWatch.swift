import Basics
package import Foundation
package import Logging
package import SQL
import Synchronization

/// Watches the system clock: compares it with the newest time in the database, writes the time there, and brings
/// forward work that a wrong clock has postponed too far.
package struct ClockWatch: Sendable {
  private static let interval = Duration.seconds(1)
  private static let roundsPerRead = 5
  /// The rounds between two corrections of the queues.
  private static let roundsPerCorrection = 60
  /// Seconds between two writes of the time to the database.
  private static let heartbeat: TimeInterval = 60

  private let time: ServiceTime
  private let record: ClockRecord
  private let queues: [@Sendable (_ isTimeSetBack: Bool) async throws -> Void]
  private let logger: Logger

  /// - Parameter queues: each makes work in its own queue due that is postponed beyond the longest pause or,
  ///   if the service's time went back, beyond the longest lease.
  package init(
    _ time: ServiceTime, record: ClockRecord,
    queues: [@Sendable (_ isTimeSetBack: Bool) async throws -> Void], logger: Logger
  ) {
    self.time = time
    self.record = record
    self.queues = queues
    self.logger = logger
  }

  /// Runs until its task is cancelled.
  package func run() async {
    var round = 0
    var lastDoubt: ClockDoubt?
    await every(Self.interval) {
      do {
        if round.isMultiple(of: Self.roundsPerRead) { try await compareWithDatabase() }
        let doubt = time.doubt
        // Waits for the longest lease, so that all work leased before the clock was set back is settled.
        let isSetBack = time.update { $0.isSetBack(for: LeasedQueue.longestLease, $1) }
        if isSetBack || round.isMultiple(of: Self.roundsPerCorrection) || doubt != lastDoubt {
          for queue in queues { try await queue(isSetBack) }
        }
        if isSetBack { time.update { clock, _ in clock.forgetSetBack() } }
        lastDoubt = doubt
      } catch {
        logger.debug(
          "the clock could not be checked", metadata: ["error": "\(DatabaseError.name(of: error))"])
      }
      round += 1
    }
  }

  /// Reads the newest time from the database, and writes this node's time if its clock is trusted.
  package func compareWithDatabase() async throws {
    let newest = try await record.newest()
    time.update { $0.compareWithDatabase(newest, $1) }
    let now = time.now()
    guard time.isClockTrusted(), newest.map({ abs(now.timeIntervalSince($0)) >= Self.heartbeat }) ?? true
    else {
      return
    }
    let written = try await record.write(now)
    time.update { clock, _ in clock.recordOwnWrite(written) }
  }
}

/// The newest time in the database. Nodes with a trusted clock write it once a minute, so that a node that
/// starts with a wrong clock notices. `clock trust` writes it too.
package struct ClockRecord: Sendable {
  private let database: any Database

  package init(database: any Database) {
    self.database = database
  }

  /// The newest time; nil if none has been written yet.
  package func newest() async throws -> Date? {
    let bytes = try await database.read { try $0.mark("clock") }
    return bytes.map { Date(milliseconds: $0.reduce(Int64(0)) { $0 << 8 | Int64($1) }) }
  }

  /// Writes the time even if it is earlier than the stored one, which a wrong clock must have written.
  ///
  /// - Returns: the stored time, rounded to milliseconds.
  @discardableResult
  package func write(_ time: Date) async throws -> Date {
    let bytes = withUnsafeBytes(of: time.milliseconds.bigEndian) { Array($0) }
    try await database.write { try $0.setMark("clock", bytes) }
    return Date(milliseconds: time.milliseconds)
  }
}

/// The service's time, and whether anything may expire now. All code that depends on the time asks here, so
/// that a jump of the clock is noticed before its time is used.
package final class ServiceTime: Sendable {
  private let wall: @Sendable () -> Date
  private let monotonic: @Sendable () -> Duration
  private let state: Mutex<ClockGuard>

  /// - Parameters:
  ///   - wall: the time of day.
  ///   - monotonic: time since an arbitrary moment; it has to advance while the machine sleeps.
  package init(
    wall: @escaping @Sendable () -> Date = { Date() },
    monotonic: @escaping @Sendable () -> Duration = { [start = ContinuousClock.now] in .now - start }
  ) {
    self.wall = wall
    self.monotonic = monotonic
    state = Mutex(ClockGuard(.init(wall: wall(), monotonic: monotonic())))
  }

  /// The current time. While the clock is doubted, it is not behind the newest known time.
  package func now() -> Date {
    let wall = wall()
    return state.withLock { state in
      guard state.isSuspicious(wall) else { return wall }
      let reading = ClockGuard.Reading(wall: wall, monotonic: monotonic())
      state.compareWithMonotonicClock(reading)
      return state.now(reading)
    }
  }

  /// Whether anything may expire now: false while the clock is doubted.
  package func isClockTrusted() -> Bool {
    update { clock, reading in
      clock.compareWithMonotonicClock(reading)
      return clock.isClockTrusted
    }
  }

  /// Why the clock is doubted; nil if it is not.
  package var doubt: ClockDoubt? {
    update { clock, reading in
      clock.compareWithMonotonicClock(reading)
      return clock.doubt
    }
  }

  /// Runs `body` with the state and the current readings of both clocks.
  func update<Result>(_ body: (inout ClockGuard, ClockGuard.Reading) -> Result) -> Result {
    state.withLock { body(&$0, reading()) }
  }

  private func reading() -> ClockGuard.Reading { .init(wall: wall(), monotonic: monotonic()) }
}
