import Basics
package import Foundation

/// A token that its provider refuses for the time being.
package struct TokenPause: Sendable, Hashable {
  /// Until when its pushes wait.
  package let until: Date
  /// Whether it has been refused for so long that its pushes are given up.
  package let isTooLong: Bool
  /// Whether it was refused for the same reason before, and the provider accepted others' pushes in between.
  package var isRefusedAlone = false

  package init(until: Date, isTooLong: Bool = false, isRefusedAlone: Bool = false) {
    self.until = until
    self.isTooLong = isTooLong
    self.isRefusedAlone = isRefusedAlone
  }
}

/// The tokens of a route that the provider refuses for reasons of their own, such as a device quota. Each
/// pauses by itself, as long as the provider asks or for growing times. A token with many unanswered pushes
/// waits as well.
struct TokenPauses: Sendable {
  /// The number of tokens that are remembered.
  static let capacity = 10_000
  static let backoff = Backoff(first: 4, longest: 900, shares: 0.5...1)
  /// Longest pause that a provider may ask for, in seconds.
  static let longest: TimeInterval = 3600
  /// Time after which the pushes of a token that is always refused are given up, in seconds.
  static let longestRefusal: TimeInterval = 86_400
  /// The seconds that other pushes of a token wait while one push tests whether it is accepted again.
  static let trial: TimeInterval = 10
  /// The number of pushes past their deadline that one token may have under way: they take up streams of connections.
  static let lateLimit = 4

  private struct Pause {
    let since: Date
    var reason: Reason
    var refusedAt: Date
    var until: Date
    var refusals = 0
    /// Whether a push tests at present whether the token is accepted again.
    var isTrial = true
  }

  private let backoff: Backoff
  private var pauses: [Int: Pause] = [:]
  private var swept = Date.distantPast
  /// Pushes of each token without an answer after their deadline.
  private var late: [Int: Int] = [:]

  init(backoff: Backoff = TokenPauses.backoff) { self.backoff = backoff }

  /// Until when the token's pushes wait, and why; nil if one may go.
  func wait(_ token: Int, now: Date) -> (until: Date, reason: Reason)? {
    if !late.isEmpty, late[token, default: 0] >= Self.lateLimit { return (now + Self.trial, .timeout) }
    guard let pause = pause(of: token, now: now), now < pause.until else { return nil }
    return (pause.until, pause.reason)
  }

  /// The token's pause, unless the clock was put back since.
  private func pause(of token: Int, now: Date) -> Pause? {
    pauses[token].flatMap { pause in
      // A trial may have begun while the clock was ahead, long after the refusal.
      let latest = now + (pause.isTrial ? Self.trial : Self.longest)
      return pause.refusedAt <= now && pause.until <= latest ? pause : nil
    }
  }

  /// A push of the token is sent. If the token was refused before, others wait for its outcome.
  mutating func began(_ token: Int, now: Date) {
    guard var pause = pauses[token] else { return }
    pause.until = now + Self.trial
    pause.isTrial = true
    pauses[token] = pause
  }

  /// Whether the token was refused for this reason before `time`, and a push was sent after its pause.
  func wasRefused(_ token: Int, _ reason: Reason, before time: Date) -> Bool {
    guard let pause = pauses[token] else { return false }
    return pause.isTrial && pause.reason == reason && pause.refusedAt < time
  }

  /// Records that the token was refused.
  ///
  /// - Parameters:
  ///   - notBefore: the time that the provider asked for.
  ///   - random: from 0 to 1.
  mutating func refused(
    _ token: Int, _ reason: Reason, notBefore: Date?, now: Date, random: Double
  ) -> TokenPause {
    var pause = pause(of: token, now: now) ?? Pause(since: now, reason: reason, refusedAt: now, until: now)
    // Refusals of pushes that were under way together count once.
    if pause.isTrial { pause.refusals += 1 }
    pause.isTrial = false
    pause.reason = reason
    pause.refusedAt = now
    let least = now + backoff.pause(after: pause.refusals, random: random)
    pause.until = max(pause.until, least, min(notBefore ?? least, now + Self.longest))
    if pauses[token] != nil || hasRoom(now: now) { pauses[token] = pause }
    return TokenPause(
      until: pause.until, isTooLong: now.timeIntervalSince(pause.since) >= Self.longestRefusal)
  }

  /// The provider gave another answer about the token, which ends its pause if the push was sent after the refusal.
  mutating func ended(_ token: Int) {
    guard pauses[token]?.isTrial == true else { return }
    pauses[token] = nil
  }

  /// A push of the token has passed its deadline without an answer.
  mutating func beganLate(_ token: Int) { late[token, default: 0] += 1 }

  /// A late push of the token has ended.
  mutating func endedLate(_ token: Int) {
    let rest = late[token, default: 1] - 1
    late[token] = rest > 0 ? rest : nil
  }

  /// Ends all pauses.
  mutating func reset() { pauses = [:] }

  /// Whether another token can be remembered. If there are too many, first removes pauses that have ended.
  private mutating func hasRoom(now: Date) -> Bool {
    guard pauses.count >= Self.capacity else { return true }
    guard abs(now.timeIntervalSince(swept)) >= 60 else { return false }
    swept = now
    pauses = pauses.filter { now < $0.value.until }
    return pauses.count < Self.capacity
  }
}
