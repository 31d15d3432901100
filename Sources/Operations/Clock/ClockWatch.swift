internal import Foundation
package import Logging
internal import Registrations
internal import SQL
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
        let isSetBack = time.isSetBack(for: LeasedQueue.longestLease)
        if isSetBack || round.isMultiple(of: Self.mending) || told != before {
          for queue in queues { try await queue(isSetBack) }
        }
        if isSetBack { time.forgetSetBack() }
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
    time.hear(newest)
    let now = time.now()
    guard time.mayExpire(), newest.map({ abs(now.timeIntervalSince($0)) >= Self.heartbeat }) ?? true else {
      return
    }
    time.wrote(try await record.write(now))
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
