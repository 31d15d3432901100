package import Foundation

/// Decides whether the system clock can be trusted. A pure state machine: its inputs are clock readings and
/// the newest time in the database.
///
/// A clock that is wrong for a moment must not make anything expire. The clock is therefore doubted when it
/// departs from the monotonic clock, when it is behind the newest time in the database, or when it is long
/// after it. Nothing expires while the clock is doubted. The doubt ends after ten minutes without a new
/// reason for it, or when another node or the operator writes a time to the database that agrees with the
/// clock.
package struct ClockGuard: Sendable {
  /// The wall clock and the monotonic clock, read together.
  package struct Reading: Sendable, Hashable {
    package var wall: Date
    /// Time since an arbitrary moment; never jumps.
    package var monotonic: Duration

    package init(
      wall: Date, monotonic: Duration
    ) {
      self.wall = wall
      self.monotonic = monotonic
    }
  }

  /// The largest difference between two clocks that counts as agreement, in seconds.
  package static let tolerance: TimeInterval = 60
  /// The seconds by which a clock may be ahead of the newest time in the database without being doubted. Beyond that either
  /// all nodes were down for that long, or the clock is wrong.
  package static let longestSilence: TimeInterval = 12 * 3600
  /// The time for which a doubted clock has to run without a new reason for doubt before it is trusted again.
  package static let probation = Duration.seconds(600)

  /// Why the clock is doubted; nil if it is not.
  package private(set) var doubt: ClockDoubt?
  /// The reading from which the expected wall clock time is computed.
  private var reference: Reading
  /// The monotonic time since which there was no new reason for doubt.
  private var steadySince: Duration
  /// A time that has certainly passed. While the wall clock is behind it, the service's time continues from
  /// it.
  private var floor: Reading?
  /// The newest time in the database, as last read.
  private var newestInDatabase: Date?
  private var hasRead = false
  /// The monotonic time at which the service's time last went back; nil once the queues have been corrected.
  private var setBackAt: Duration?

  package init(_ reading: Reading) {
    reference = reading
    steadySince = reading.monotonic
  }

  /// Whether anything may expire now. False until the newest time in the database has been read.
  package var isClockTrusted: Bool { hasRead && doubt == nil }

  /// Whether the wall clock has moved so much since the last comparison that ``compareWithMonotonicClock(_:)`` must be
  /// called before its time is used.
  package func isSuspicious(_ wall: Date) -> Bool {
    floor != nil || abs(wall.timeIntervalSince(lastWall)) > Self.tolerance / 10
  }

  private var lastWall = Date.distantPast

  /// The service's time: the wall clock, or the newest known time while the wall clock is behind it.
  package func now(_ reading: Reading) -> Date {
    guard let floor else { return reading.wall }
    return max(reading.wall, floor.wall + (reading.monotonic - floor.monotonic) / .seconds(1))
  }

  /// Compares the wall clock with the monotonic clock.
  package mutating func compareWithMonotonicClock(_ reading: Reading) {
    defer { lastWall = reading.wall }
    let expected = reference.wall + (reading.monotonic - reference.monotonic) / .seconds(1)
    let jump = reading.wall.timeIntervalSince(expected)
    if abs(jump) > Self.tolerance {
      let before = now(Reading(wall: expected, monotonic: reading.monotonic))
      reference = reading
      startDoubt(.jumped(by: jump), from: expected, reading)
      recordStepBack(from: before, reading)
    } else if doubt != nil, reading.monotonic - steadySince >= Self.probation {
      endDoubt(reading)
    } else if reading.monotonic - reference.monotonic > Self.probation {
      // Absorbs the small corrections that are normal for a clock.
      reference = reading
    }
  }

  /// Compares the wall clock with the newest time in the database; nil if there is none yet.
  package mutating func compareWithDatabase(_ newest: Date?, _ reading: Reading) {
    compareWithMonotonicClock(reading)
    let isFirst = !hasRead
    guard isFirst || newest != newestInDatabase else { return }
    newestInDatabase = newest
    hasRead = true
    guard let newest else { return }
    let age = reading.wall.timeIntervalSince(newest)
    if doubt != nil, !isFirst {
      // The time was written just now, by another node or by the operator.
      if abs(age) <= Self.tolerance {
        endDoubt(reading)
      } else {
        raiseFloor(to: newest, reading)
        steadySince = reading.monotonic
      }
    } else if age < -Self.tolerance {
      startDoubt(.behind(by: -age), from: newest, reading)
      raiseFloor(to: newest, reading)
    } else if age > Self.longestSilence {
      startDoubt(.ahead(by: age), from: newest, reading)
    }
  }

  /// Whether the service's time went back at least `duration` ago. Work that was postponed before that may be
  /// due far too late.
  package func isSetBack(for duration: Duration, _ reading: Reading) -> Bool {
    setBackAt.map { reading.monotonic - $0 >= duration } ?? false
  }

  /// Called after the queues have been corrected.
  package mutating func forgetSetBack() {
    setBackAt = nil
  }

  /// Remembers a time that this node wrote, so that it is not taken for another node's.
  package mutating func recordOwnWrite(_ newest: Date) {
    newestInDatabase = newest
  }

  /// - Parameter time: the earliest time that it can be now.
  private mutating func startDoubt(_ reason: ClockDoubt.Reason, from time: Date, _ reading: Reading) {
    steadySince = reading.monotonic
    guard doubt == nil else {
      doubt?.reason = reason
      return
    }
    floor = Reading(wall: time, monotonic: reading.monotonic)
    doubt = ClockDoubt(reason: reason, since: now(reading))
  }

  private mutating func raiseFloor(to time: Date, _ reading: Reading) {
    let least = now(Reading(wall: .distantPast, monotonic: reading.monotonic))
    if time > least { floor = Reading(wall: time, monotonic: reading.monotonic) }
  }

  private mutating func endDoubt(_ reading: Reading) {
    let before = now(reading)
    doubt = nil
    floor = nil
    reference = reading
    recordStepBack(from: before, reading)
  }

  /// - Parameter time: what the service's time would be now without the change.
  private mutating func recordStepBack(from time: Date, _ reading: Reading) {
    if time.timeIntervalSince(now(reading)) > Self.tolerance { setBackAt = reading.monotonic }
  }
}

/// Why the clock is doubted, and since when.
package struct ClockDoubt: Sendable, Hashable, CustomStringConvertible {
  /// What the clock disagrees with; times are in seconds.
  package enum Reason: Sendable, Hashable {
    /// The wall clock has moved by this much against the monotonic clock since the last comparison; negative if it
    /// went back.
    case jumped(by: TimeInterval)
    /// The clock is this far behind the newest time in the database.
    case behind(by: TimeInterval)
    /// The clock is this far ahead of the newest time in the database.
    case ahead(by: TimeInterval)
  }

  package internal(set) var reason: Reason
  /// When the doubt began, in the service's time.
  package let since: Date

  package static let meaning = "Nothing expires until the clock has been steady for ten minutes."
  package static let advice = "set the clock right; if it is right, run push-bouncer clock trust"

  /// For people: `it was put ahead by 25 h`.
  package var description: String {
    switch reason {
    case .jumped(let seconds): "it was put \(seconds > 0 ? "ahead" : "back") by \(Self.text(abs(seconds)))"
    case .behind(let seconds): "it is \(Self.text(seconds)) behind the newest time in the database"
    case .ahead(let seconds): "it is \(Self.text(seconds)) ahead of the newest time in the database"
    }
  }

  package static func text(_ seconds: TimeInterval) -> String {
    seconds < 7200 ? "\(Int(seconds.rounded())) s" : "\(Int((seconds / 3600).rounded())) h"
  }
}
