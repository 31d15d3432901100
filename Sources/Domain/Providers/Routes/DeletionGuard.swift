package import Foundation
internal import HTTPClient

/// Decides, per route and token group, whether an answer ends a registration.
///
/// Providers call some tokens dead, and refuse others, which a wrong topic or environment also causes, for
/// every token at once. The guard believes refusals only on a route that has worked, and only while they are
/// the exception. It also does not believe that most tokens have died within minutes, so that a fault at the
/// provider does not end every registration.
///
/// Evidence counts by owner: an owner whose tokens are all refused does not put other owners' tokens in
/// doubt. Three such owners do, or all owners if there are fewer.
package struct DeletionGuard: Sendable {
  /// What an answer means for the registration.
  package enum Verdict: String, Sendable, Hashable {
    /// The registration stays.
    case keep
    /// The registration ends, unless it was renewed meanwhile.
    case end
    /// The registration stays, because the route itself is in doubt.
    case doubtRoute
    /// The registration stays until the provider has repeated the answer for long enough, or the operator
    /// confirms it.
    case hold
  }

  /// Why a route's refusals of tokens are not believed.
  package struct Doubt: Sendable, Hashable {
    /// The reason that the provider gives.
    package let reason: Reason
    package let since: Date
  }

  /// Number of answers that are looked back on.
  static let window = 50

  /// Dead tokens among those answers and within ``burstInterval`` are doubted if they are more than this and
  /// more than half.
  static let mostDeaths = 20
  static let burstInterval: TimeInterval = 600

  /// How many owners put other owners' tokens in doubt.
  static let witnesses = 3
  /// Number of owners whose own answers are remembered.
  static let mostOwners = 256

  /// The present doubt about refusals, if there is one.
  private(set) var doubt: Doubt?
  private var hasDelivered = false
  /// The latest answers of all owners together, shared fairly between them.
  private var shared = Answers()
  /// The latest answers of each of the most recently answered owners.
  private var own: [Owner: Answers] = [:]

  /// Records an answer and decides what it means for the registration.
  ///
  /// - Parameters:
  ///   - registeredAt: when the registration was last made or renewed.
  ///   - believedSince: for a registration made before this, a dead answer is believed whatever `since` it
  ///     carries. A provider may take a while to notice that a token is valid again; but a `since` before the
  ///     registration may also come from a slow call or from a clock that was ahead, and would then never
  ///     change. The distant past while the clock is in doubt: then no times are compared, because a clock
  ///     that is behind dates the registration before the end of the token's earlier life.
  mutating func verdict(
    on outcome: Outcome, of owner: Owner, registeredAt: Date, believedSince: Date, now: Date
  ) -> Verdict {
    switch outcome {
    case .delivered, .passedOn:
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
      // These are not answers about a token.
      return .keep
    }
  }

  /// Whether too many tokens have died recently to be believed: of this owner, or of several owners.
  private func isBurst(of owner: Owner, now: Date) -> Bool {
    func isBurst(_ answers: [Answers.Answer]) -> Bool {
      let deaths = answers.count { $0.kind == .dead }
      return deaths > Self.mostDeaths && deaths * 2 > answers.count
    }
    if let own = own[owner], isBurst(own.latest(now)) { return true }
    let recent = shared.latest(now)
    return isBurst(recent) && owners(mostly: .dead, recent).these >= Self.witnesses
  }

  /// Whether most tokens are refused, for enough owners to put the route in doubt.
  private func areRefused(now: Date) -> Bool {
    let all = shared.all
    guard all.count(where: { $0.kind == .suspect }) * 2 > all.count else { return false }
    let (these, owners) = owners(mostly: .suspect, shared.latest(now))
    return these >= min(Self.witnesses, owners)
  }

  /// How many owners got mostly answers of this kind, and how many got any.
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

/// The latest answers about tokens, at most ``DeletionGuard/window``. If full, drops the oldest answer of the
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

/// Tokens that are judged together and apart from all others, so that tokens registered by strangers do not
/// affect other owners' devices.
package struct TokenGroup: Sendable, Hashable {
  private let id: Int64

  package init(_ id: Int64) { self.id = id }
}
