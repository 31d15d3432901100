package import Foundation
package import Logging
import Synchronization

/// Logs a limited number of lines a minute, so that nobody can fill the disk. How many lines were left out is logged once
/// their minute is over.
package final class RateLimitedLog: Sendable {
  /// The number of lines of one kind that may be logged in a minute.
  package struct Limit: Sendable, Hashable {
    /// What the lines are about: `requests of untrusted callers`.
    let lines: String
    let perMinute: Int

    package init(_ lines: String, perMinute: Int) {
      self.lines = lines
      self.perMinute = perMinute
    }
  }

  private struct Minute {
    let start: Date
    var logged = 0
    var leftOut = 0

    func isOver(at now: Date) -> Bool {
      // A time before the start means that the clock was put back.
      !(0..<60).contains(now.timeIntervalSince(start))
    }
  }

  private let minutes = Mutex<[Limit: Minute]>([:])

  package init() {}

  /// The number of lines that may be logged now.
  package func remaining(_ limit: Limit, now: Date) -> Int {
    minutes.withLock { minutes in
      guard let minute = minutes[limit], !minute.isOver(at: now) else { return limit.perMinute }
      return limit.perMinute - minute.logged
    }
  }

  /// Logs the line, or counts it as left out if its limit is reached.
  package func log(
    _ level: Logger.Level, _ message: @autoclosure () -> Logger.Message, _ limit: Limit, to logger: Logger,
    now: Date, metadata: @autoclosure () -> Logger.Metadata
  ) {
    let (isLogged, leftOut) = minutes.withLock { minutes in
      let leftOut = Self.removeEnded(from: &minutes, now)
      var minute = minutes[limit] ?? Minute(start: now)
      let isLogged = minute.logged < limit.perMinute
      if isLogged { minute.logged += 1 } else { minute.leftOut += 1 }
      minutes[limit] = minute
      return (isLogged, leftOut)
    }
    Self.log(leftOut, to: logger)
    if isLogged { logger.log(level: level, message(), metadata: metadata()) }
  }

  /// Logs how many lines were left out in minutes that are over.
  package func logLeftOut(to logger: Logger, now: Date) {
    Self.log(minutes.withLock { Self.removeEnded(from: &$0, now) }, to: logger)
  }

  /// - Returns: the minutes that are over and in which lines were left out.
  private static func removeEnded(from minutes: inout [Limit: Minute], _ now: Date) -> [Limit: Minute] {
    let ended = minutes.filter { $0.value.isOver(at: now) }
    for limit in ended.keys { minutes[limit] = nil }
    return ended.filter { $0.value.leftOut > 0 }
  }

  private static func log(_ ended: [Limit: Minute], to logger: Logger) {
    for (limit, minute) in ended {
      logger.notice(
        "more lines were left out: \(limit.lines)",
        metadata: ["left_out": .stringConvertible(minute.leftOut)])
    }
  }
}
