import Basics
package import Foundation
import HTTPClient
import Providers
import Registrations
import Synchronization

/// Limits the pushes to one device to what Google accepts: 240 in a minute and 5,000 in an hour (Firebase, "Throttling and
/// quotas"). Further pushes wait.
///
/// A device has 160 places. A push takes one, and every 0.75 seconds the one that was taken first is free again: that is at
/// most 240 in any minute and 4,960 in any hour, and however much is sent, there is room again within a second.
///
/// Whoever knows a token can register it, so the places are shared out between the owners (``FairShare``): each has at most
/// three times as many as are free. Owners without credentials, of whom there may be any number, find only half of the
/// places, and so do background pushes: what chat servers show need not wait for them.
///
/// Places are taken when a push is sent, whatever wire it comes from, and by token, since a device may have several
/// registrations. They are this process's own and are lost when it ends.
package final class DevicePace: Sendable {
  /// What a device may get.
  package struct Limit: Sendable, Hashable {
    let places: Int
    /// Seconds until the next place is free.
    let seconds: TimeInterval

    package init(places: Int, seconds: TimeInterval) {
      self.places = places
      self.seconds = seconds
    }
  }

  package static let google = Limit(places: 160, seconds: 0.75)

  /// A push as the limit sees it.
  struct Claim: Sendable, Hashable {
    /// Hash of the device's token.
    let device: Int
    let owner: Owner
    /// Whether its owner has no credentials.
    var isOpen = false
    /// Whether the push shows nothing.
    var isBackground = false
  }

  /// The shortest wait of an owner that has its share, in seconds, so that several of its pushes go together.
  private static let shortestWait: TimeInterval = 10

  private let limit: Limit
  private let capacity: Int
  /// By hash of the device's token.
  private let devices: Mutex<BoundedMemory<Int, SentPushes>>

  /// - Parameter capacity: number of devices that are told apart. Owners without credentials get at most half of them.
  init(_ limit: Limit, capacity: Int = 1_000_000) {
    self.limit = limit
    self.capacity = capacity
    // Then all places are free again.
    devices = Mutex(BoundedMemory(capacity: capacity, lifetime: TimeInterval(limit.places) * limit.seconds))
  }

  /// Takes a place for a push to a device, unless it has to wait.
  ///
  /// - Returns: the time until which it has to wait; nil if it may be sent.
  func admit(_ claim: Claim, now: Date) -> Date? {
    let places = limit.places / ((claim.isOpen ? 2 : 1) * (claim.isBackground ? 2 : 1))
    let time = now.timeIntervalSince1970
    let wait = with(claim, time) { pushes -> TimeInterval? in
      pushes.release(until: time, limit)
      guard let free = pushes.free(for: claim.owner, of: max(1, places)) else {
        pushes.take(claim.owner, now: time, limit)
        return nil
      }
      return pushes.has(claim.owner) ? max(free, time + Self.shortestWait) : free
    }
    return wait.map { Date(timeIntervalSince1970: $0) }
  }

  /// Gives back the place of a push that did not reach the provider.
  func giveBack(_ claim: Claim, now: Date) {
    with(claim, now.timeIntervalSince1970) { $0.giveBack(claim.owner) }
  }

  private func with<Result: Sendable>(
    _ claim: Claim, _ time: TimeInterval, _ body: (inout SentPushes) -> Result
  ) -> Result {
    devices.withLock { devices in
      devices.update(claim.device, now: time, capacity: claim.isOpen ? capacity / 2 : nil) { pushes in
        var sent = pushes.take() ?? SentPushes()
        defer { pushes = sent }
        return body(&sent)
      }
    }
  }
}

/// The pushes to a device that have places, in the order in which these are free again.
private struct SentPushes: Sendable {
  private var taken: [(owner: Owner, until: TimeInterval)] = []

  mutating func release(until now: TimeInterval, _ limit: DevicePace.Limit) {
    // A time that far ahead means that the clock was put back.
    if let last = taken.last, last.until > now + TimeInterval(limit.places + 1) * limit.seconds { taken = [] }
    taken.removeFirst(taken.prefix { $0.until <= now }.count)
  }

  func has(_ owner: Owner) -> Bool { taken.contains { $0.owner == owner } }

  /// The time from which an owner may take one more of this many places; nil if it may now.
  func free(for owner: Owner, of places: Int) -> TimeInterval? {
    var own = taken.count { $0.owner == owner }
    var total = taken.count
    var free: TimeInterval?
    for push in taken where !FairShare.allows(own: own, total: total, limit: places) {
      free = push.until
      total -= 1
      if push.owner == owner { own -= 1 }
    }
    return free
  }

  mutating func take(_ owner: Owner, now: TimeInterval, _ limit: DevicePace.Limit) {
    taken.append((owner, max(now, taken.last?.until ?? now) + limit.seconds))
  }

  mutating func giveBack(_ owner: Owner) {
    if let index = taken.lastIndex(where: { $0.owner == owner }) { taken.remove(at: index) }
  }
}

extension RegisteredPush {
  /// How the push counts against its device's limits; nil if it has none. A device that anybody may register always has
  /// limits; of the others, those whose provider delivers at a limited pace.
  var paceClaim: DevicePace.Claim? {
    guard push.provider.definition.limitsDevices || registration.wire.isOpen, let device = push.tokenHash
    else { return nil }
    return DevicePace.Claim(
      device: device, owner: owner, isOpen: registration.wire.isOpen, isBackground: isBackground)
  }
}

extension Outcome {
  /// Whether the provider does not count the push: it was not asked, or it refused the push because of too many.
  var isUncounted: Bool {
    switch self {
    case .retry(let reason, _, let scope):
      [.caller, .token, .tokenOrRoute].contains(scope) || reason == .breakerOpen || reason.isOfConnection
    case .delivered, .passedOn, .dead, .suspect, .rejected, .misconfigured: false
    }
  }
}
