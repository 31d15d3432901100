package import Basics
package import Foundation
import HTTPClient

/// Weighs what a provider says about a token against its other answers on the route, for one group of tokens.
///
/// Providers call some tokens dead, and refuse others. A wrong topic or environment causes refusals too, of every token at
/// once. So refusals are believed only on a route that has worked, and only while they are the exception. If most tokens
/// die within minutes, that is not believed either, so that a fault at the provider does not end every registration.
///
/// Evidence counts by owner: an owner whose tokens are all refused puts its own in doubt, and not those of other owners.
/// Three such owners do, or all owners if there are fewer.
package struct DeletionGuard: Sendable {
  /// Why a route's refusals of tokens are not believed.
  package struct Doubt: Sendable, Hashable {
    /// The reason that the provider gives.
    package let reason: Reason
    package let since: Date
  }

  /// The number of latest answers that count.
  static let window = 50

  /// Dead tokens, and refused ones of one owner, are doubted if there were more than this number, and more than half of all
  /// answers, within ``burstInterval``.
  static let toleratedTokens = 20
  /// In seconds.
  static let burstInterval: TimeInterval = 600

  /// The number of owners with refused or dead tokens that puts other owners' tokens in doubt.
  static let requiredOwners = 3
  /// The number of owners whose own answers are remembered.
  static let ownerCapacity = 256

  /// The present doubt about refusals, if there is one.
  package private(set) var doubt: Doubt?
  private var hasDelivered = false
  /// The latest answers of all owners together, shared fairly between them.
  private var shared = Answers()
  /// The latest answers of each of the most recently answered owners.
  private var own: [Owner: Answers] = [:]

  package init() {}

  /// The provider accepted a push of the owner.
  package mutating func accepted(of owner: Owner, now: Date) {
    hasDelivered = true
    doubt = nil
    record(.other, owner, now)
  }

  /// The provider rejected a push of the owner for what is in it.
  package mutating func rejected(of owner: Owner, now: Date) { record(.other, owner, now) }

  /// The provider called a token of the owner dead.
  ///
  /// - Returns: whether to believe it: not if it calls too many dead.
  package mutating func calledDead(of owner: Owner, now: Date) -> Bool {
    record(.dead, owner, now)
    return !isBurst(of: owner, now: now)
  }

  /// The provider refused a token of the owner, perhaps because of the route.
  ///
  /// - Returns: whether to believe that it is the token.
  package mutating func refused(of owner: Owner, because reason: Reason, now: Date) -> Bool {
    record(.suspect, owner, now)
    if hasDelivered, !areRefused(now: now), !isBurst(.suspect, own[owner], now) { return true }
    doubt = doubt ?? Doubt(reason: reason, since: now)
    return false
  }

  /// Whether too many tokens have died recently to be believed: of this owner, or of several owners.
  private func isBurst(of owner: Owner, now: Date) -> Bool {
    isBurst(.dead, own[owner], now)
      || isBurst(.dead, shared, now) && owners(mostly: .dead, shared.latest(now)).these >= Self.requiredOwners
  }

  private func isBurst(_ kind: Answers.Kind, _ answers: Answers?, _ now: Date) -> Bool {
    guard let latest = answers?.latest(now) else { return false }
    let these = latest.count { $0.kind == kind }
    return these > Self.toleratedTokens && these * 2 > latest.count
  }

  /// Whether most tokens are refused, for enough owners to put the route in doubt.
  private func areRefused(now: Date) -> Bool {
    let all = shared.all
    guard all.count(where: { $0.kind == .suspect }) * 2 > all.count else { return false }
    let (these, owners) = owners(mostly: .suspect, shared.latest(now))
    return these >= min(Self.requiredOwners, owners)
  }

  /// The number of owners that got mostly answers of this kind, and the number that got any.
  private func owners(mostly kind: Answers.Kind, _ answers: [Answers.Answer]) -> (these: Int, all: Int) {
    let tallies = Dictionary(grouping: answers, by: \.owner)
    return (tallies.values.count { $0.count { $0.kind == kind } * 2 > $0.count }, tallies.count)
  }

  private mutating func record(_ kind: Answers.Kind, _ owner: Owner, _ now: Date) {
    let answer = Answers.Answer(kind: kind, owner: owner, time: now)
    shared.add(answer)
    if own[owner] == nil, own.count >= Self.ownerCapacity {
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

/// Tokens that are judged together and apart from all others, so that tokens that anybody may register do not affect other
/// owners' devices.
package struct TokenGroup: Sendable, Hashable {
  private let id: Int64

  package init(_ id: Int64) { self.id = id }
}
