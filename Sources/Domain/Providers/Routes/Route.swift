package import Basics
import Foundation
package import HTTPClient
import NIOCore

/// The way a push takes: a credential with its environment, and a topic or project; or a host of Web Push.
/// Each route has its own health, so that a bad key or a slow provider affects only its own pushes.
package struct Route: Sendable, Hashable, CustomStringConvertible {
  package enum Provider: String, Sendable, Hashable, CaseIterable {
    case apns, fcm
    case webPush = "webpush"
    /// The upstream bouncer, for the devices of an app that this service has no credentials for.
    case upstream
  }

  package let provider: Provider
  /// The credential's name, which is its file's stem. For Web Push the push service's host, for the upstream bouncer
  /// its host, with its port unless that is 443.
  package let credential: String
  /// The topic (APNs) or the project id (FCM); empty for others.
  package let target: String

  package init(provider: Provider, credential: String, target: String) {
    self.provider = provider
    self.credential = credential
    self.target = target
  }

  /// As it appears in logs: `apns:simulator org.example.chat`, `webpush:push.example.org`.
  package var description: String {
    let name = credential.isEmpty ? provider.rawValue : "\(provider.rawValue):\(credential)"
    return target.isEmpty ? name : "\(name) \(target)"
  }
}

extension Owner {
  /// A chat server, by its row.
  package static func chatServer(_ row: Int64) -> Owner { Owner(id: row << 2 | 1) }
  /// The row of the chat server; nil for any other owner.
  package var chatServer: Int64? { id & 3 == 1 ? id >> 2 : nil }
  /// Everything that one address (or IPv6 /64) registered with the push proxy or the Web Push gateway, by a keyed hash of
  /// the address; or what one sender's key sends through the gateway, by a keyed hash of the key.
  package static func address(_ hash: Int64) -> Owner { Owner(id: hash << 2 | 2) }
  /// An address of which its network can be told: 31 bits of a keyed hash of the network come before 30 of the address.
  package static func address(_ hash: Int64, in network: Int64) -> Owner {
    Owner(id: (network & 0x7FFF_FFFF) << 32 | (hash & 0x3FFF_FFFF) << 2 | 2)
  }
  /// The network of an ``address(_:in:)``.
  package var network: Int64 { id >> 32 }
  /// A user of the built-in server, by its row.
  package static func user(_ row: Int64) -> Owner { Owner(id: row << 2 | 3) }
}

/// The owner and token of a push, by which a route tells pushes apart.
struct Recipient: Sendable, Hashable {
  let owner: Owner
  /// A hash of the token, valid in this process only.
  let token: Int
  /// Whether it is a call other than a push: refused pushes do not hold it up, and its answer says nothing about pushes.
  var isCall = false
}

/// A series of failures of a route without a success. It proves that the route does not work only after a few
/// seconds: a connection that breaks fails hundreds of requests at once, and the next one may work.
struct FailureRun: Sendable {
  /// The seconds from the first to the latest failure after which the series is proof. Longer than the failures of one
  /// broken connection take.
  static let proof: TimeInterval = 3
  /// A longer gap between two failures, in seconds, starts a new series.
  static let longestGap: TimeInterval = 120

  private var first: Date?
  private var latest = Date.distantPast
  /// The reason for the latest failure.
  private(set) var reason = Reason.unknown
  /// Whether the series proves that the route does not work.
  private(set) var isProof = false

  /// The time of the first failure; nil if none has happened since the last success.
  var since: Date? { first }

  /// A request failed because of the route.
  ///
  /// - Parameter isLasting: whether the next one would fail for sure, as with a wrong key.
  mutating func failed(_ reason: Reason, isLasting: Bool, now: Date) {
    // A time before the latest failure means that the clock was put back.
    if !isProof, now < latest || now.timeIntervalSince(latest) > Self.longestGap { first = nil }
    let first = first ?? now
    self.first = first
    latest = now
    self.reason = reason
    if isLasting || now.timeIntervalSince(first) >= Self.proof { isProof = true }
  }

  /// Counts the series as proof at once, because so many requests have failed together.
  mutating func settle() { isProof = true }

  /// A request succeeded, which ends the series.
  mutating func ended() { self = FailureRun() }
}

/// Detects a route that answers too late for callers that wait for the answer.
///
/// While a provider hangs or is away, every call would take its whole deadline. So after three callers in turn have waited
/// in vain, callers do not wait any more until an answer takes less time than those three waited, or nothing is under way.
/// Pushes from the outbox still go, and their answers show when the route is fast again.
struct Slowness: Sendable {
  /// The number of callers that must have waited in vain, each beginning after the one before gave up: pushes sent
  /// together count once.
  static let threshold = 3
  /// A caller that gave up sooner than this says nothing about the route.
  static let fairChance = TimeAmount.seconds(1)

  private var strikes = 0
  private var lastStrike = NIODeadline.uptimeNanoseconds(0)
  /// The shortest time that a caller waited in vain.
  private var tooShort = TimeAmount.nanoseconds(.max)

  /// Whether callers should not wait.
  var isSlow: Bool { strikes >= Self.threshold }

  /// A caller waited from `start` until now without an answer.
  ///
  /// - Parameter hasFailed: whether there was no connection or it broke, so that this says nothing about how long answers
  ///   take.
  mutating func waitedInVain(from start: NIODeadline, now: NIODeadline, hasFailed: Bool = false) {
    guard now - start >= Self.fairChance else { return }
    if !hasFailed { tooShort = min(tooShort, now - start) }
    guard strikes == 0 || start >= lastStrike else { return }
    strikes += 1
    lastStrike = now
  }

  /// The provider answered a request after `time`.
  mutating func answered(after time: TimeAmount) {
    if time < tooShort { self = Slowness() }
  }
}
