import Foundation
import Providers
import Registrations
import Synchronization

/// Limits the pushes to one device to what Google accepts in a minute and in an hour (Firebase, "Throttling and quotas").
/// Further pushes wait. Background pushes have half of each limit, so that visible ones need not wait for them.
///
/// Pushes are counted when they are sent, whatever wire they come from, and by token, since a device may have several
/// registrations. The counts are this process's own and are lost when it ends.
package final class DevicePace: Sendable {
  /// Maximum number of pushes to a device in a time.
  package struct Limit: Sendable, Hashable {
    let pushes: Int
    let seconds: Int

    package init(pushes: Int, seconds: Int) {
      self.pushes = pushes
      self.seconds = seconds
    }
  }

  package static let google = [Limit(pushes: 240, seconds: 60), Limit(pushes: 5000, seconds: 3600)]

  private struct State {
    /// Pushes to devices that were sent to since `rotatedAt`, and to others. Once in the longest of the limits' times, the
    /// old ones are dropped and the recent ones become old.
    var recent: [Int: SentPushes] = [:]
    var old: [Int: SentPushes] = [:]
    /// Seconds since 1970.
    var rotatedAt = Int.min
    /// Pushes to devices for which there was no room. Several devices share a place.
    var shared: [Int: SentPushes] = [:]
  }

  private static let places = 1 << 16
  private let limits, halves: [Limit]
  private let longest: Int
  private let capacity: Int
  private let state = Mutex(State())

  /// - Parameter capacity: number of devices that have a place of their own.
  init(_ limits: [Limit], capacity: Int = 1_000_000) {
    self.limits = limits
    self.capacity = capacity
    halves = limits.map { Limit(pushes: ($0.pushes + 1) / 2, seconds: $0.seconds) }
    longest = limits.map(\.seconds).max() ?? 0
  }

  /// Counts a push to a device, unless it has to wait.
  ///
  /// - Parameter isBackground: whether the push shows nothing.
  /// - Returns: the time until which it has to wait; nil if it may be sent.
  func admit(_ device: Int, isBackground: Bool = false, now: Date) -> Date? {
    let second = Self.second(of: now)
    let limits = isBackground ? halves : limits
    return change(device, second) { $0.admit(second, limits, longest) }.map {
      Date(timeIntervalSince1970: TimeInterval($0))
    }
  }

  /// Uncounts a push that did not reach the provider.
  func uncount(_ device: Int, admitted time: Date) {
    let second = Self.second(of: time)
    change(device, second) { $0.uncount(second) }
  }

  private static func second(of time: Date) -> Int { Int(time.timeIntervalSince1970.rounded(.down)) }

  @discardableResult
  private func change<Result: Sendable>(
    _ device: Int, _ second: Int, _ body: (inout SentPushes) -> Result
  ) -> Result {
    state.withLock { state in
      // Begins anew if the clock was put back.
      if second < state.rotatedAt || second - longest >= state.rotatedAt {
        state.old = state.recent
        state.recent = [:]
        state.rotatedAt = second
      }
      if let kept = state.old.removeValue(forKey: device) { state.recent[device] = kept }
      guard state.recent[device] != nil || state.recent.count + state.old.count < capacity else {
        return body(&state.shared[device & (Self.places - 1), default: SentPushes()])
      }
      return body(&state.recent[device, default: SentPushes()])
    }
  }
}

/// The pushes that were sent to a device: by second in the last minute, by minute before.
private struct SentPushes {
  private struct Bucket {
    /// Time of the last of them, in seconds since 1970.
    var second: Int
    var pushes: Int
  }

  private static let mostBuckets = 128

  /// The counts in the order of time.
  private var buckets: [Bucket] = []

  /// Counts a push; if a limit does not allow it, returns the second from which it may go.
  mutating func admit(_ now: Int, _ limits: [DevicePace.Limit], _ longest: Int) -> Int? {
    // A time after now means that the clock was put back.
    buckets.removeAll { $0.second > now || $0.second < now - longest }
    var free = now
    for limit in limits {
      var sum = 0
      for bucket in buckets.reversed() {
        sum += bucket.pushes
        guard sum >= limit.pushes else { continue }
        free = max(free, bucket.second + limit.seconds + 1)
        break
      }
    }
    guard free <= now else { return free }
    if buckets.last?.second == now {
      buckets[buckets.count - 1].pushes += 1
    } else {
      if buckets.count >= Self.mostBuckets { merge(before: now - 60) }
      buckets.append(Bucket(second: now, pushes: 1))
    }
    return nil
  }

  mutating func uncount(_ second: Int) {
    guard let index = buckets.lastIndex(where: { $0.second == second && $0.pushes > 0 }) else { return }
    buckets[index].pushes -= 1
  }

  private mutating func merge(before time: Int) {
    buckets = buckets.reduce(into: []) { merged, bucket in
      if let last = merged.last, bucket.second < time, last.second / 60 == bucket.second / 60 {
        merged[merged.count - 1] = Bucket(second: bucket.second, pushes: last.pushes + bucket.pushes)
      } else {
        merged.append(bucket)
      }
    }
  }
}

extension RegisteredPush {
  /// The device whose limits the push counts against; nil if it has none. A device that anybody may register always has
  /// limits; of the others, those that Google delivers to.
  var pacedDevice: Int? {
    guard push.provider == .fcm || registration.kind.isOpen else { return nil }
    return push.tokenHash
  }
}

extension Outcome {
  /// Whether the provider does not count the push: it was not asked, or it refused the push because of too many.
  var isUncounted: Bool {
    switch self {
    case .retry(let reason, _, let scope):
      [.caller, .token, .tokenOrRoute].contains(scope) || reason == .breakerOpen || reason.isOfConnection
    default: false
    }
  }
}
