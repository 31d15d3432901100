import Foundation
import Timing

/// The tokens of a route that its provider refuses for reasons of their own, as for a quota of the device: each waits by
/// itself, for as long as the provider asks or for pauses that grow. So does one that has many pushes unanswered.
struct TokenPauses: Sendable {
  /// As many tokens are remembered.
  static let most = 10_000
  static let backoff = Backoff(first: 4, longest: 900, shares: 0.5...1)
  /// A provider that asks for more is not believed, in seconds.
  static let longest: TimeInterval = 3600
  /// A token that is refused for so long is given up, in seconds.
  static let longestRefusal: TimeInterval = 86_400
  /// While one push shows whether the token is taken again, others wait for so long, in seconds.
  static let trial: TimeInterval = 10
  /// So many pushes of one token may be without an answer after their deadline: they take places that others want.
  static let mostLate = 4

  private struct Pause {
    let since: Date
    var reason: Reason
    var refusedAt: Date
    var until: Date
    var refusals = 0
    /// One push has gone to see whether the token is taken again.
    var isTrial = true
  }

  private var pauses: [Int: Pause] = [:]
  private var swept = Date.distantPast
  /// How many pushes of each token are without an answer after their deadline.
  private var late: [Int: Int] = [:]

  /// Why the token is refused, if it is.
  func reason(of token: Int) -> Reason? { pauses[token]?.reason }

  /// Until when the token's pushes wait, and why; nil: one may go.
  func wait(_ token: Int, now: Date) -> (until: Date, reason: Reason)? {
    if !late.isEmpty, late[token, default: 0] >= Self.mostLate { return (now + Self.trial, .timeout) }
    guard let pause = pause(of: token, now: now), now < pause.until else { return nil }
    return (pause.until, pause.reason)
  }

  /// What is held against a token; nothing where the clock was put back since.
  private func pause(of token: Int, now: Date) -> Pause? {
    pauses[token].flatMap { $0.refusedAt <= now && $0.until <= now + Self.longest ? $0 : nil }
  }

  /// A push of the token goes: others wait for what becomes of it, if the token was refused before.
  mutating func began(_ token: Int, now: Date) {
    pauses[token]?.until = now + Self.trial
    pauses[token]?.isTrial = true
  }

  /// Whether the token was refused so before that time, and a push has gone since its pause was over.
  func wasRefused(_ token: Int, _ reason: Reason, before time: Date) -> Bool {
    guard let pause = pauses[token] else { return false }
    return pause.isTrial && pause.reason == reason && pause.refusedAt < time
  }

  /// The token was refused.
  ///
  /// - Parameters:
  ///   - notBefore: what the provider asked for.
  ///   - random: from 0 to 1.
  /// - Returns: until when its pushes wait; nil if it has been refused for so long that they are given up.
  mutating func refused(_ token: Int, _ reason: Reason, notBefore: Date?, now: Date, random: Double) -> Date?
  {
    var pause = pause(of: token, now: now) ?? Pause(since: now, reason: reason, refusedAt: now, until: now)
    // Those that were under way together are one refusal.
    if pause.isTrial { pause.refusals += 1 }
    (pause.isTrial, pause.reason, pause.refusedAt) = (false, reason, now)
    let least = now + Self.backoff.pause(after: pause.refusals, random: random)
    pause.until = max(pause.until, least, min(notBefore ?? least, now + Self.longest))
    if pauses[token] != nil || hasRoom(now: now) { pauses[token] = pause }
    return now.timeIntervalSince(pause.since) >= Self.longestRefusal ? nil : pause.until
  }

  /// The provider said something else of the token.
  mutating func ended(_ token: Int) {
    guard !pauses.isEmpty else { return }
    pauses[token] = nil
  }

  /// A push of the token has had no answer by its deadline.
  mutating func beganLate(_ token: Int) { late[token, default: 0] += 1 }

  /// It is known what became of it.
  mutating func endedLate(_ token: Int) {
    let rest = late[token, default: 1] - 1
    late[token] = rest > 0 ? rest : nil
  }

  /// Nothing is held against any token any more.
  mutating func forgive() { pauses = [:] }

  /// Forgets pauses that are long over, where there are too many.
  private mutating func hasRoom(now: Date) -> Bool {
    guard pauses.count >= Self.most else { return true }
    guard abs(now.timeIntervalSince(swept)) >= 60 else { return false }
    swept = now
    pauses = pauses.filter { now < $0.value.until }
    return pauses.count < Self.most
  }
}
