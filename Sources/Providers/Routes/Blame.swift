import Foundation
import Timing

/// Whether a route is to blame for what its provider answers about single tokens. One owner's tokens prove nothing: three
/// owners have to be answered so while nobody gets anything, or all that send at all.
struct Blame: Sendable {
  /// So many owners are witnesses enough.
  static let witnesses = 3
  /// Nothing was delivered for so long, in seconds.
  static let quiet: TimeInterval = 60
  /// What was longer ago counts for nothing, in seconds.
  static let memory: TimeInterval = 600
  /// For so long everything was answered so, in seconds, where fewer owners send.
  static let proof: TimeInterval = 10
  /// As many owners that were refused are held back; beyond them everybody is.
  private static let most = 1000

  /// Owners, each with when it was last met: the three met last.
  private struct Latest {
    private var owners: [(owner: Owner, time: Date)] = []

    mutating func note(_ owner: Owner, _ now: Date) {
      owners.removeAll { $0.owner == owner }
      if owners.count == Blame.witnesses { owners.removeFirst() }
      owners.append((owner, now))
    }

    func count(now: Date) -> Int { owners.count { abs(now.timeIntervalSince($0.time)) < Blame.memory } }
  }

  private var senders = Latest()
  private var refused = Latest()
  private var deliveredAt = Date.distantPast
  /// Since when nothing was answered in another way.
  private var refusedSince: Date?
  /// The route is to blame, since then.
  private(set) var since: Date?
  private(set) var reason = Reason.unknown
  /// The owners that were refused since.
  private var held: Set<Owner> = []
  /// Lets those try again, one at a time.
  private var breaker: Breaker

  init(backoff: Backoff = Breaker.backoff) {
    breaker = Breaker(threshold: 1, backoff: backoff)
  }

  /// Whether an owner's push may go. One that was not refused yet is a witness: its push goes.
  mutating func admit(_ owner: Owner, now: Date) -> Breaker.Admission {
    guard since != nil, held.contains(owner) || held.count >= Self.most else { return .send }
    return breaker.admit(now: now)
  }

  /// The provider took a push: the route works.
  mutating func delivered(to owner: Owner, now: Date) {
    senders.note(owner, now)
    deliveredAt = now
    refusedSince = nil
    refused = Latest()
    guard since != nil else { return }
    (since, held) = (nil, [])
    breaker.succeeded()
  }

  /// The provider gave another answer about a token.
  mutating func answered(_ owner: Owner, now: Date) {
    senders.note(owner, now)
    refusedSince = nil
    breaker.probeAbandoned(now: now)
  }

  /// The provider refused an owner's token in a way that may be the route's fault.
  ///
  /// - Parameters:
  ///   - notBefore: what it asked for.
  ///   - jitter: from 0 to 1, at random.
  mutating func refused(_ owner: Owner, _ reason: Reason, notBefore: Date?, now: Date, jitter: Double) {
    senders.note(owner, now)
    refused.note(owner, now)
    let first = refusedSince.map { min($0, now) } ?? now
    refusedSince = first
    if since == nil {
      let hasWitnesses =
        refused.count(now: now) >= Self.witnesses && abs(now.timeIntervalSince(deliveredAt)) >= Self.quiet
      let areAll = senders.count(now: now) < Self.witnesses && now.timeIntervalSince(first) >= Self.proof
      guard hasWitnesses || areAll else { return }
      since = first
    }
    self.reason = reason
    let isNew = held.count < Self.most && held.insert(owner).inserted
    guard !isNew || !breaker.isOpen else { return }
    breaker.failed(isLasting: true, notBefore: notBefore, now: now, jitter: jitter)
  }

  /// A push that was let through ended without an answer.
  mutating func abandoned(now: Date) { breaker.probeAbandoned(now: now) }
}
