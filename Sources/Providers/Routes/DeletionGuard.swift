package import Foundation

/// Decides, per route and token group, whether an answer ends a registration.
///
/// A provider says of some tokens that they are dead; of others only that it refuses them, which a
/// wrong topic or the wrong environment brings about as well, for every token at once. The guard
/// believes such answers only on a route that has worked, and only while they are the exception. Nor does it believe
/// that most of those who are asked for have died within minutes: a bad hour of the provider's must not end them all.
///
/// Its witnesses are owners: one whose tokens are all refused makes nobody else's doubtful. Three of them do, or as many
/// as there are.
package struct DeletionGuard: Sendable {
  /// What an answer means for the registration.
  package enum Verdict: String, Sendable, Hashable {
    /// It stays.
    case keep
    /// It ends, unless it was made again meanwhile.
    case end
    /// It stays, because the route itself is in doubt.
    case doubtRoute
    /// It stays, until the provider has been of that mind for long enough or the operator is.
    case hold
  }

  /// Why the tokens that a route refuses are not believed to be bad.
  package struct Doubt: Sendable, Hashable {
    /// What the provider says of them.
    package let reason: Reason
    /// Since when.
    package let since: Date
  }

  /// How many answers are looked back on.
  static let window = 50

  /// More deaths than this, among those answers and in ``burstInterval``, are doubted if they are more than half.
  static let mostDeaths = 20
  static let burstInterval: TimeInterval = 600

  /// So many owners make others' tokens doubtful.
  static let witnesses = 3
  /// Owners whose own answers are remembered.
  static let mostOwners = 256

  /// What is said of tokens and not believed, while that is so.
  private(set) var doubt: Doubt?
  private var hasDelivered = false
  /// The latest answers of all owners, with a part for each.
  private var shared = Answers()
  /// The latest of each owner, of those that were answered last.
  private var own: [Owner: Answers] = [:]

  /// Takes an answer into account and says what it means.
  ///
  /// - Parameters:
  ///   - owner: who answers for the registration.
  ///   - registeredAt: when the registration was last made.
  ///   - believedSince: of one that was made by then a death is believed whatever time it names. A provider may take a
  ///     while to notice that a token lives again; but a time before the registration may also come from a call that
  ///     took long or from a clock that was ahead, and then it stays what it is for good. The distant past while the
  ///     clock is doubted: then no times are compared, as a clock that is behind puts the registration before what is
  ///     said of the token's former life.
  mutating func verdict(
    on outcome: Outcome, of owner: Owner, registeredAt: Date, believedSince: Date, now: Date
  ) -> Verdict {
    switch outcome {
    case .delivered:
      hasDelivered = true
      doubt = nil
      record(.other, owner, now)
      return .keep
    case .dead(_, let since):
      record(.dead, owner, now)
      if let since, registeredAt > believedSince, registeredAt >= since || believedSince == .distantPast {
        return .keep
      }
      return isBurst(of: owner, now: now) ? .hold : .end
    case .suspect(let reason):
      record(.suspect, owner, now)
      if hasDelivered, !areRefused(now: now) { return .end }
      doubt = doubt ?? Doubt(reason: reason, since: now)
      return .doubtRoute
    case .rejected:
      record(.other, owner, now)
      return .keep
    case .retry, .misconfigured:
      // No answer about a token.
      return .keep
    }
  }

  /// Whether too many have died of late to be believed: of this owner's, or of several owners'.
  private func isBurst(of owner: Owner, now: Date) -> Bool {
    func isBurst(_ answers: [Answers.Answer]) -> Bool {
      let deaths = answers.count { $0.kind == .dead }
      return deaths > Self.mostDeaths && deaths * 2 > answers.count
    }
    if let own = own[owner], isBurst(own.latest(now)) { return true }
    let recent = shared.latest(now)
    return isBurst(recent) && owners(mostly: .dead, recent).these >= Self.witnesses
  }

  /// Whether most tokens are refused, of so many owners that it is not theirs.
  private func areRefused(now: Date) -> Bool {
    let all = shared.all
    guard all.count(where: { $0.kind == .suspect }) * 2 > all.count else { return false }
    let (these, owners) = owners(mostly: .suspect, shared.latest(now))
    return these >= min(Self.witnesses, owners)
  }

  /// How many owners have got mostly such answers, of how many.
  private func owners(mostly kind: Answers.Kind, _ answers: [Answers.Answer]) -> (these: Int, all: Int) {
    let tallies = Dictionary(grouping: answers, by: \.owner)
    return (tallies.values.count { $0.count { $0.kind == kind } * 2 > $0.count }, tallies.count)
  }

  private mutating func record(_ kind: Answers.Kind, _ owner: Owner, _ now: Date) {
    let answer = Answers.Answer(kind: kind, owner: owner, time: now)
    shared.add(answer)
    if own[owner] == nil, own.count >= Self.mostOwners {
      let oldest = own.min { $0.value.newest < $1.value.newest }
      if let oldest { own[oldest.key] = nil }
    }
    own[owner, default: Answers()].add(answer)
  }
}

/// The latest answers about tokens, at most ``DeletionGuard/window``. Where there is no more room, the oldest goes of the
/// owner that has most.
private struct Answers: Sendable {
  enum Kind {
    case suspect, dead, other
  }

  struct Answer {
    let kind: Kind
    let owner: Owner
    let time: Date
  }

  private(set) var all: [Answer] = []
  private var counts: [Owner: Int] = [:]

  var newest: Date { all.last?.time ?? .distantPast }

  /// Those of the last ten minutes.
  func latest(_ now: Date) -> [Answer] {
    all.filter { now.timeIntervalSince($0.time) < DeletionGuard.burstInterval }
  }

  mutating func add(_ answer: Answer) {
    if all.count >= DeletionGuard.window {
      let most = counts.max { $0.value < $1.value }?.key
      let index = counts.count == 1 ? 0 : all.firstIndex { $0.owner == most } ?? 0
      let gone = all.remove(at: index).owner
      counts[gone, default: 0] -= 1
      if counts[gone] == 0 { counts[gone] = nil }
    }
    all.append(answer)
    counts[answer.owner, default: 0] += 1
  }
}

/// Tokens that are judged together, and apart from all others: what strangers register says nothing about the devices
/// of others.
package struct TokenGroup: Sendable, Hashable {
  private let id: Int64

  /// The group of this number.
  package init(_ id: Int64) { self.id = id }
}
