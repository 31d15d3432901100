import Foundation
import NIOCore

/// The way a push takes: one credential, one topic or project, one environment; or one host of Web Push. Routes are kept
/// apart, so that a bad key or a slow provider concerns only its own.
package struct Route: Sendable, Hashable, CustomStringConvertible {
  package enum Provider: String, Sendable, Hashable, CaseIterable {
    case apns, fcm
    case webPush = "webpush"
  }

  package let provider: Provider
  /// The name of the credential: its file's stem. Of Web Push the push service's host, with its port unless that is 443.
  package let credential: String
  /// The topic (APNs) or the project id (FCM); empty for Web Push.
  package let target: String

  package init(provider: Provider, credential: String, target: String) {
    (self.provider, self.credential, self.target) = (provider, credential, target)
  }

  /// As it appears in logs: `apns:simulator org.example.chat`, `webpush:push.example.org`.
  package var description: String {
    let name = credential.isEmpty ? provider.rawValue : "\(provider.rawValue):\(credential)"
    return target.isEmpty ? name : "\(name) \(target)"
  }
}

/// Who answers for a push. What is shared is dealt out between owners, and what happens to one owner's pushes is not
/// taken for everybody's trouble.
package struct Owner: Sendable, Hashable {
  /// As the outbox keeps it; 0 for nobody in particular.
  package let id: Int64

  /// The owner that the outbox keeps as this number.
  package init(id: Int64) { self.id = id }

  /// A chat server, by its row.
  package static func chatServer(_ row: Int64) -> Owner { Owner(id: row << 2 | 1) }
  /// Whatever was registered with the push proxy from one address (an IPv6 /64 is one), by a keyed hash of that.
  package static func address(_ hash: Int64) -> Owner { Owner(id: hash << 2 | 2) }
  /// A user of the built-in server, by its row.
  package static func user(_ row: Int64) -> Owner { Owner(id: row << 2 | 3) }
  /// Pushes of the program's own.
  package static let nobody = Owner(id: 0)
}

/// How places that are shared are dealt out between owners.
package enum FairShare {
  /// How many more places an owner may take: it has at most three times as many as are free then. So one that is alone
  /// gets three quarters of them, whoever comes next still finds room, and the refusal meets who has most.
  ///
  /// - Parameters:
  ///   - own: places that the owner has.
  ///   - total: places that all owners have.
  ///   - limit: how many there are.
  package static func room(own: Int, total: Int, limit: Int) -> Int {
    max(0, min(limit - total, (3 * (limit - total) - own + 3) / 4))
  }

  /// Whether an owner may take one more place.
  package static func allows(own: Int, total: Int, limit: Int) -> Bool {
    total < limit && own < 3 * (limit - total)
  }
}

/// Whom a push is for, as its route tells them apart.
struct Recipient: Sendable, Hashable {
  let owner: Owner
  /// A hash of the token, good for this process.
  let token: Int
}

/// Failures of a route with no success between them. They mean that it does not work once they have gone on for a
/// few seconds: a connection that ends takes hundreds of requests with it, and the next one may be fine.
struct FailureRun: Sendable {
  /// From the first to the latest: more than one connection's end takes.
  static let proof: TimeInterval = 3
  /// Failures further apart say nothing about the time between them.
  static let longestGap: TimeInterval = 120

  private var first: Date?
  private var latest = Date.distantPast
  /// Why the latest failed.
  private(set) var reason = Reason.unknown
  /// The route does not work.
  private(set) var isProof = false

  /// Since when; nil if nothing has failed since the last success.
  var since: Date? { first }

  /// A request failed.
  ///
  /// - Parameter isLasting: whether the next one would fail for sure, as with a wrong key.
  mutating func failed(_ reason: Reason, isLasting: Bool, now: Date) {
    // Before the latest: the clock was put back.
    if !isProof, now < latest || now.timeIntervalSince(latest) > Self.longestGap { first = nil }
    let first = first ?? now
    self.first = first
    (latest, self.reason) = (now, reason)
    if isLasting || now.timeIntervalSince(first) >= Self.proof { isProof = true }
  }

  /// So many have failed at once that it is proof enough.
  mutating func settle() { isProof = true }

  /// One was answered.
  mutating func ended() { self = FailureRun() }
}

/// Whether a route answers too late for those who wait: then they are better off not waiting.
///
/// A provider that hangs would cost each request its whole deadline. So after some who waited in vain, one after
/// the other, nobody does any more, until an answer comes sooner than they would have given up, or all have come.
/// What need not wait, from the outbox, goes all the while, and shows when that is.
struct Slowness: Sendable {
  /// How many in a row have to wait in vain, each begun after the one before had given up: whatever is sent
  /// together suffers together, and counts once.
  static let threshold = 3
  /// Who gave up sooner than this says nothing about the route.
  static let fairChance = TimeAmount.seconds(1)

  private var strikes = 0
  private var lastStrike = NIODeadline.uptimeNanoseconds(0)
  /// The shortest time that was too short.
  private var tooShort = TimeAmount.nanoseconds(.max)

  /// Whether waiting is in vain.
  var isSlow: Bool { strikes >= Self.threshold }

  /// Somebody waited from `start` until now and got no answer.
  mutating func waitedInVain(from start: NIODeadline, now: NIODeadline) {
    guard now - start >= Self.fairChance else { return }
    tooShort = min(tooShort, now - start)
    guard strikes == 0 || start >= lastStrike else { return }
    strikes += 1
    lastStrike = now
  }

  /// The provider answered after so long.
  mutating func answered(after time: TimeAmount) {
    if time < tooShort { self = Slowness() }
  }
}
