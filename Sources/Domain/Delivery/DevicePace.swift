import Foundation
import Providers
import Registrations
import Synchronization

/// How fast pushes go to one device: no more in any minute and hour than Google takes for one (Firebase, "Throttling
/// and quotas"), since Google refuses what is beyond that. What comes faster waits. What shows nothing has half of that, so
/// that it does not keep waiting what shows something.
///
/// Counted where a push is sent, so whatever wire it comes from, and by its token, since a device may have several
/// registrations. Of this process only, and forgotten at its end.
package final class DevicePace: Sendable {
  package struct Limit: Sendable, Hashable {
    let pushes: Int
    let seconds: Int

    package init(pushes: Int, seconds: Int) { (self.pushes, self.seconds) = (pushes, seconds) }
  }

  package static let google = [Limit(pushes: 240, seconds: 60), Limit(pushes: 5000, seconds: 3600)]

  private struct State {
    /// What was sent to devices since `turned`, and before. Once in the longest of the limits' times, the old ones are
    /// dropped and the young ones become old.
    var young: [Int: SentPushes] = [:]
    var old: [Int: SentPushes] = [:]
    var turned = Int.min
    /// Of devices for which there was no room. Several share a place.
    var shared: [Int: SentPushes] = [:]
  }

  private static let places = 1 << 16
  private let limits, halves: [Limit]
  private let longest: Int
  private let capacity: Int
  private let state = Mutex(State())

  /// - Parameter capacity: how many devices have a place of their own.
  init(_ limits: [Limit], capacity: Int = 1_000_000) {
    self.limits = limits
    self.capacity = capacity
    halves = limits.map { Limit(pushes: ($0.pushes + 1) / 2, seconds: $0.seconds) }
    longest = limits.map(\.seconds).max() ?? 0
  }

  /// Counts a push to a device, unless it has to wait.
  ///
  /// - Parameter isBackground: whether it shows nothing.
  /// - Returns: until when it has to; nil if it may go.
  func admit(_ device: Int, isBackground: Bool = false, now: Date) -> Date? {
    let second = Self.second(of: now)
    let limits = isBackground ? halves : limits
    return change(device, second) { $0.admit(second, limits, longest) }.map {
      Date(timeIntervalSince1970: TimeInterval($0))
    }
  }

  /// Takes back a push that did not reach the provider.
  func takeBack(_ device: Int, admitted time: Date) {
    let second = Self.second(of: time)
    change(device, second) { $0.takeBack(second) }
  }

  private static func second(of time: Date) -> Int { Int(time.timeIntervalSince1970.rounded(.down)) }

  @discardableResult
  private func change<Result: Sendable>(
    _ device: Int, _ second: Int, _ body: (inout SentPushes) -> Result
  ) -> Result {
    state.withLock { state in
      // Begins anew if the clock was put back.
      if second < state.turned || second - longest >= state.turned {
        (state.old, state.young, state.turned) = (state.young, [:], second)
      }
      if let kept = state.old.removeValue(forKey: device) { state.young[device] = kept }
      guard state.young[device] != nil || state.young.count + state.old.count < capacity else {
        return body(&state.shared[device & (Self.places - 1), default: SentPushes()])
      }
      return body(&state.young[device, default: SentPushes()])
    }
  }
}

/// How many pushes were sent to a device, and when: to the second those of the last minute, to the minute others.
private struct SentPushes {
  private struct Bucket {
    /// Of the last of them.
    var second: Int
    var pushes: Int
  }

  private static let mostBuckets = 128

  /// In the order of time.
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

  mutating func takeBack(_ second: Int) {
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
  /// The device whose pace it is sent at. Of the push proxy every device has one, since anybody may register them;
  /// otherwise those of Google.
  var pacedDevice: Int? {
    guard push.provider == .fcm || registration.kind == .nextcloud else { return nil }
    return push.tokenHash
  }
}

extension Outcome {
  /// Whether the provider has not been asked, or has refused for the pace, which it does not count.
  var isUncounted: Bool {
    switch self {
    case .retry(let reason, _, let scope):
      [.caller, .token, .tokenOrRoute].contains(scope) || reason == .breakerOpen || reason.isOfConnection
    default: false
    }
  }
}
