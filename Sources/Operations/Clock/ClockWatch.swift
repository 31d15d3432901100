package import Foundation
package import Logging
internal import Registrations
package import SQL
internal import Synchronization
internal import Timing

/// Watches the clock: compares it with the newest time in the database, writes the time there, warns the operator of a
/// clock that is doubted, and makes due what a wrong clock has put off too far.
package struct ClockWatch: Sendable {
  private static let interval = Duration.seconds(1)
  /// Rounds between two questions to the database, and between two looks at what waits.
  private static let (hearing, mending) = (5, 60)
  /// Seconds between two times in the database.
  private static let heartbeat: TimeInterval = 60

  private let time: ServiceTime
  private let record: ClockRecord
  private let queues: [@Sendable (_ isTimeSetBack: Bool) async throws -> Void]
  private let logger: Logger

  /// - Parameter queues: each makes due, in its own queue, what is further ahead than the longest pause; or, where the
  ///   time was set back, than a lease.
  package init(
    _ time: ServiceTime, record: ClockRecord,
    queues: [@Sendable (_ isTimeSetBack: Bool) async throws -> Void], logger: Logger
  ) {
    self.time = time
    self.record = record
    self.queues = queues
    self.logger = logger
  }

  /// Watches until its task is cancelled.
  package func run() async {
    var (round, told) = (0, nil as ClockDoubt?)
    await every(Self.interval) {
      let before = told
      do {
        if round.isMultiple(of: Self.hearing) { try await hear() }
        tell(&told)
        // When whatever was leased by the former time has been settled.
        let isSetBack = time.update { $0.isSetBack(for: LeasedQueue.longestLease, $1) }
        if isSetBack || round.isMultiple(of: Self.mending) || told != before {
          for queue in queues { try await queue(isSetBack) }
        }
        if isSetBack { time.update { clock, _ in clock.forgetSetBack() } }
      } catch {
        tell(&told)
        logger.debug(
          "the clock could not be checked", metadata: ["error": "\(DatabaseError.name(of: error))"])
      }
      round += 1
    }
  }

  /// Reads the newest time in the database, and writes this clock's if it is trusted.
  package func hear() async throws {
    let newest = try await record.newest()
    time.update { $0.hear(newest, $1) }
    let now = time.now()
    guard time.mayExpire(), newest.map({ abs(now.timeIntervalSince($0)) >= Self.heartbeat }) ?? true else {
      return
    }
    let written = try await record.write(now)
    time.update { clock, _ in clock.wrote(written) }
  }

  private func tell(_ told: inout ClockDoubt?) {
    let doubt = time.doubt
    defer { told = doubt }
    if let doubt, doubt != told {
      logger.warning(
        """
        the clock may be wrong: nothing expires until it has been steady for ten minutes. Set it right; \
        if it is right, say so: push-bouncer clock trust
        """, metadata: ["reason": "\(doubt)"])
    } else if doubt == nil, told != nil {
      logger.notice("the clock is trusted again")
    }
  }
}

/// The newest time in the database. Nodes whose clock is trusted write it once a minute, so that one that starts with
/// a wrong clock can tell. `clock trust` writes it as well.
package struct ClockRecord: Sendable {
  private let database: any Database

  /// The record in `database`.
  package init(database: any Database) {
    self.database = database
  }

  /// The newest time; nil if none was written yet.
  package func newest() async throws -> Date? {
    let statement = Statement("SELECT value FROM metadata WHERE name = 'clock'")
    let bytes = try await database.query(statement).first?.bytes(0)
    return bytes.map { Date(milliseconds: $0.reduce(Int64(0)) { $0 << 8 | Int64($1) }) }
  }

  /// Writes it, even if it is earlier than the stored one, which a wrong clock has written then.
  ///
  /// - Returns: the time as it is kept, in whole milliseconds.
  @discardableResult
  package func write(_ time: Date) async throws -> Date {
    let bytes = withUnsafeBytes(of: time.milliseconds.bigEndian) { Array($0) }
    _ = try await database.execute(
      Statement(
        """
        INSERT INTO metadata (name, value) VALUES ('clock', $1)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value
        """, .bytes(bytes)))
    return Date(milliseconds: time.milliseconds)
  }
}

/// The service's time, and whether anything may be taken as expired by it. Everything that has to do with time asks
/// here, so that a jump of the clock is noticed before anything uses the wrong time.
package final class ServiceTime: Sendable {
  private let wall: @Sendable () -> Date
  private let monotonic: @Sendable () -> Duration
  private let state: Mutex<ClockGuard>

  /// - Parameters:
  ///   - wall: the time of day.
  ///   - monotonic: what has passed since some moment, also while the machine slept.
  package init(
    wall: @escaping @Sendable () -> Date = { Date() },
    monotonic: @escaping @Sendable () -> Duration = { [start = ContinuousClock.now] in .now - start }
  ) {
    self.wall = wall
    self.monotonic = monotonic
    state = Mutex(ClockGuard(.init(wall: wall(), monotonic: monotonic())))
  }

  /// The time. While the clock is doubted it does not stand before the newest time that is known.
  package func now() -> Date {
    let wall = wall()
    return state.withLock { state in
      guard state.isSuspicious(wall) else { return wall }
      let reading = ClockGuard.Reading(wall: wall, monotonic: monotonic())
      state.look(reading)
      return state.now(reading)
    }
  }

  /// Whether anything may be taken as expired now: not while the clock is doubted.
  package func mayExpire() -> Bool {
    update { clock, reading in
      clock.look(reading)
      return clock.mayExpire
    }
  }

  /// Why the clock is doubted; nil if it is not.
  package var doubt: ClockDoubt? {
    update { clock, reading in
      clock.look(reading)
      return clock.doubt
    }
  }

  /// Looks at, or changes, what is thought of the clocks as they are now.
  func update<Result>(_ body: (inout ClockGuard, ClockGuard.Reading) -> Result) -> Result {
    state.withLock { body(&$0, reading()) }
  }

  private func reading() -> ClockGuard.Reading { .init(wall: wall(), monotonic: monotonic()) }
}
