import Basics
import Foundation
import HTTPClient

/// Decides whether a route is to blame for the refusals of single tokens. One owner's tokens prove nothing: three owners
/// must be refused while nothing is delivered or, if fewer owners send, all of them.
struct Blame: Sendable {
  /// The number of refused owners that is enough to blame the route.
  static let requiredOwners = 3
  /// How long nothing must have been delivered, in seconds.
  static let minimumSilence: TimeInterval = 60
  /// Answers older than this are ignored, in seconds.
  static let window: TimeInterval = 600
  /// How long every answer must have been a refusal if fewer owners send, in seconds.
  static let singleOwnerInterval: TimeInterval = 10
  /// The number of refused owners that are remembered. Beyond it every owner's pushes are held back.
  private static let capacity = 1000

  /// The three most recent owners, each with its latest time.
  private struct Latest {
    private var owners: [(owner: Owner, time: Date)] = []

    mutating func record(_ owner: Owner, _ now: Date) {
      owners.removeAll { $0.owner == owner }
      if owners.count == Blame.requiredOwners { owners.removeFirst() }
      owners.append((owner, now))
    }

    func count(now: Date) -> Int { owners.count { abs(now.timeIntervalSince($0.time)) < Blame.window } }
  }

  private var senders = Latest()
  private var refused = Latest()
  private var deliveredAt = Date.distantPast
  /// Since when every answer is a refusal.
  private var refusedSince: Date?
  /// Since when the route is to blame; nil if it is not.
  private(set) var since: Date?
  private(set) var reason = Reason.unknown
  /// The owners refused since then, whose pushes are held back.
  private var held: Set<Owner> = []
  /// The breaker that lets their pushes through one at a time, as probes.
  private var breaker: Breaker

  init(backoff: Backoff = Breaker.backoff) {
    breaker = Breaker(threshold: 1, backoff: backoff)
  }

  /// Whether an owner's push may go. Owners that were not refused yet may send: their answers show whether the route
  /// works.
  mutating func admit(_ owner: Owner, now: Date) -> Breaker.Admission {
    guard since != nil, held.contains(owner) || held.count >= Self.capacity else { return .send }
    return breaker.admit(now: now)
  }

  /// The provider accepted a push, so the route works.
  mutating func delivered(to owner: Owner, now: Date) {
    senders.record(owner, now)
    deliveredAt = now
    refusedSince = nil
    refused = Latest()
    guard since != nil else { return }
    since = nil
    held = []
    breaker.succeeded()
  }

  /// The provider gave an answer about the token that does not concern the route.
  mutating func answered(_ owner: Owner, now: Date) {
    senders.record(owner, now)
    refusedSince = nil
    breaker.probeAbandoned(now: now)
  }

  /// The provider refused an owner's token, perhaps because of the route.
  ///
  /// - Parameters:
  ///   - notBefore: the time that the provider asked for.
  ///   - jitter: random, from 0 to 1.
  mutating func refused(_ owner: Owner, _ reason: Reason, notBefore: Date?, now: Date, jitter: Double) {
    senders.record(owner, now)
    refused.record(owner, now)
    let first = refusedSince.map { min($0, now) } ?? now
    refusedSince = first
    if since == nil {
      let areEnough =
        refused.count(now: now) >= Self.requiredOwners
        && abs(now.timeIntervalSince(deliveredAt)) >= Self.minimumSilence
      let areAll =
        senders.count(now: now) < Self.requiredOwners
        && now.timeIntervalSince(first) >= Self.singleOwnerInterval
      guard areEnough || areAll else { return }
      since = first
    }
    self.reason = reason
    let isNew = held.count < Self.capacity && held.insert(owner).inserted
    guard !isNew || !breaker.isOpen else { return }
    breaker.failed(.lasting, reason, notBefore: notBefore, now: now, jitter: jitter)
  }

  /// A push that was let through as a probe ended without an answer.
  mutating func abandoned(now: Date) { breaker.probeAbandoned(now: now) }
}
