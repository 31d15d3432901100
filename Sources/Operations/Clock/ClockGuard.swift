package import Foundation

/// Whether the time of day can be believed. A pure state machine: its input is what the clocks show and the newest time
/// in the database.
///
/// A clock that is wrong for a moment must not make anything expire. So the clock is doubted when it departs from the
/// monotonic clock, or stands before the newest time in the database or long after it. While it is doubted, nothing
/// expires. Doubt ends after ten minutes without a new reason for it, or when a time that was just written to the
/// database, by another node or by the operator, agrees with the clock.
struct ClockGuard: Sendable {
  /// What both clocks show at one moment.
  struct Reading: Sendable, Hashable {
    /// The time of day.
    var wall: Date
    /// What has passed since some moment; it never jumps.
    var monotonic: Duration
  }

  /// How much clocks may differ, in seconds.
  static let tolerance: TimeInterval = 60
  /// A clock this much later than the newest time in the database is doubted: the service was off for so long, or
  /// the clock is wrong.
  static let longestSilence: TimeInterval = 12 * 3600
  /// How long a doubted clock must go well until it is trusted again.
  static let probation = Duration.seconds(600)

  /// Why the clock is doubted; nil if it is not.
  private(set) var doubt: ClockDoubt?
  /// The reading that the wall clock is compared with.
  private var reference: Reading
  /// Since when a doubted clock has gone well.
  private var steadySince: Duration
  /// The newest time that is known to have been. The service's time goes on from it while the wall clock stands behind it.
  private var floor: Reading?
  /// The newest time in the database, as it was read last.
  private var heard: Date?
  private var hasHeard = false
  /// When the service's time was last set back, while nobody has dealt with that.
  private var setBackAt: Duration?

  init(_ reading: Reading) {
    reference = reading
    steadySince = reading.monotonic
  }

  /// Whether anything may be taken as expired. Not before the newest time in the database was read.
  var mayExpire: Bool { hasHeard && doubt == nil }

  /// Whether a wall clock that shows this time has to be examined.
  func isSuspicious(_ wall: Date) -> Bool {
    floor != nil || abs(wall.timeIntervalSince(lastWall)) > Self.tolerance / 10
  }

  private var lastWall = Date.distantPast

  /// The time: the wall clock's, or the newest known time if the wall clock stands before it.
  func now(_ reading: Reading) -> Date {
    guard let floor else { return reading.wall }
    return max(reading.wall, floor.wall + (reading.monotonic - floor.monotonic) / .seconds(1))
  }

  /// Looks at both clocks.
  mutating func look(_ reading: Reading) {
    defer { lastWall = reading.wall }
    let expected = reference.wall + (reading.monotonic - reference.monotonic) / .seconds(1)
    let jump = reading.wall.timeIntervalSince(expected)
    if abs(jump) > Self.tolerance {
      let before = now(Reading(wall: expected, monotonic: reading.monotonic))
      reference = reading
      begin(.jumped(by: jump), from: expected, reading)
      noteFall(from: before, reading)
    } else if doubt != nil, reading.monotonic - steadySince >= Self.probation {
      end(reading)
    } else if reading.monotonic - reference.monotonic > Self.probation {
      // Small corrections of clocks are normal.
      reference = reading
    }
  }

  /// Takes the newest time in the database; nil if there is none yet.
  mutating func hear(_ newest: Date?, _ reading: Reading) {
    look(reading)
    let isFirst = !hasHeard
    guard isFirst || newest != heard else { return }
    (heard, hasHeard) = (newest, true)
    guard let newest else { return }
    let age = reading.wall.timeIntervalSince(newest)
    if doubt != nil, !isFirst {
      // It was written just now, by another node or by the operator.
      if abs(age) <= Self.tolerance {
        end(reading)
      } else {
        raise(to: newest, reading)
        steadySince = reading.monotonic
      }
    } else if age < -Self.tolerance {
      begin(.behind(by: -age), from: newest, reading)
      raise(to: newest, reading)
    } else if age > Self.longestSilence {
      begin(.ahead(by: age), from: newest, reading)
    }
  }

  /// Whether the service's time was set back, for at least that long: what it had put off until then may be due far too
  /// late.
  func isSetBack(for duration: Duration, _ reading: Reading) -> Bool {
    setBackAt.map { reading.monotonic - $0 >= duration } ?? false
  }

  /// That has been dealt with.
  mutating func forgetSetBack() {
    setBackAt = nil
  }

  /// This node has written the newest time itself.
  mutating func wrote(_ newest: Date) {
    heard = newest
  }

  /// - Parameter time: the earliest that it can be now.
  private mutating func begin(_ reason: ClockDoubt.Reason, from time: Date, _ reading: Reading) {
    steadySince = reading.monotonic
    guard doubt == nil else {
      doubt?.reason = reason
      return
    }
    floor = Reading(wall: time, monotonic: reading.monotonic)
    doubt = ClockDoubt(reason: reason, since: now(reading))
  }

  private mutating func raise(to time: Date, _ reading: Reading) {
    let least = now(Reading(wall: .distantPast, monotonic: reading.monotonic))
    if time > least { floor = Reading(wall: time, monotonic: reading.monotonic) }
  }

  private mutating func end(_ reading: Reading) {
    let before = now(reading)
    (doubt, floor, reference) = (nil, nil, reading)
    noteFall(from: before, reading)
  }

  /// - Parameter time: what the service's time would be by now.
  private mutating func noteFall(from time: Date, _ reading: Reading) {
    if time.timeIntervalSince(now(reading)) > Self.tolerance { setBackAt = reading.monotonic }
  }
}

/// Why the clock is doubted, and since when.
package struct ClockDoubt: Sendable, Hashable, CustomStringConvertible {
  /// What speaks against the clock; times are in seconds.
  package enum Reason: Sendable, Hashable {
    /// It has gone this much further than the monotonic clock since the last look; negative: back.
    case jumped(by: TimeInterval)
    /// It stands this long before the newest time in the database.
    case behind(by: TimeInterval)
    /// It stands this long after the newest time in the database.
    case ahead(by: TimeInterval)
  }

  /// What speaks against the clock.
  package internal(set) var reason: Reason
  /// Since when, by the service's time.
  package let since: Date

  /// For people: `it was put ahead by 25 h`.
  package var description: String {
    switch reason {
    case .jumped(let seconds): "it was put \(seconds > 0 ? "ahead" : "back") by \(Self.text(abs(seconds)))"
    case .behind(let seconds): "it stands \(Self.text(seconds)) before the newest time in the database"
    case .ahead(let seconds): "it stands \(Self.text(seconds)) after the newest time in the database"
    }
  }

  static func text(_ seconds: TimeInterval) -> String {
    seconds < 7200 ? "\(Int(seconds.rounded())) s" : "\(Int((seconds / 3600).rounded())) h"
  }
}
