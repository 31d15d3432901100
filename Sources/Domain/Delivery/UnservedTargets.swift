import Basics
import Foundation
import HTTPClient
package import Providers
import Registrations
import Synchronization

/// Counts the notifications of the last hour for each app and Firebase project that no credential serves.
///
/// Names of apps come from outside, so only a limited number is counted individually, and each chat server has a share of
/// these places (``FairShare``). The others are counted together.
package final class UnservedTargets: Sendable {
  /// An app or project.
  package struct Target: Sendable, Hashable, CustomStringConvertible {
    package let provider: Route.Provider
    /// The bundle id or project, of which no more is kept than is shown; empty for the default project, for Web Push and for
    /// the relay; nil for all that are counted together.
    let text: String?
    /// Whether its devices were registered at the push proxy, where anybody can register one.
    package let isUntrusted: Bool
    /// Set if a credential serves the bundle id, but only in APNs' other environment.
    package var environment: APNsCredential.Environment?
  }

  private struct Entry {
    let owner: Owner
    /// Notifications by the interval in which they came.
    var counts: [Int: Int] = [:]
    var seenAt: Date
    var loggedAt = Date.distantPast
  }

  /// Number of targets that are counted individually.
  static let places = 64
  /// Length of the time that is counted, in seconds.
  private static let window = 3600.0
  /// Length of the intervals in which counts are kept, in seconds.
  private static let interval = 300.0

  private let entries = Mutex<[Target: Entry]>([:])

  /// Counts notifications for a target.
  ///
  /// - Parameter count: number of new ones; 0 if some still wait.
  /// - Returns: whether to log the target, which is once an hour.
  func record(_ target: Target, _ count: Int, of owner: Owner, now: Date) -> Bool {
    entries.withLock { entries in
      Self.forget(&entries, now)
      let target = entries[target] != nil || Self.hasPlace(for: owner, entries) ? target : target.others
      var entry = entries[target] ?? Entry(owner: owner, seenAt: now)
      if count > 0 { entry.counts[Self.interval(of: now), default: 0] += count }
      entry.seenAt = now
      // A time before the last log means that the clock was put back.
      let isLogged = (0..<Self.window).contains(now.timeIntervalSince(entry.loggedAt))
      if !isLogged { entry.loggedAt = now }
      entries[target] = entry
      return !isLogged
    }
  }

  /// Number of notifications of the last hour, for each target that had some or for which some still wait.
  func counts(now: Date) -> [Target: Int] {
    entries.withLock { entries in
      Self.forget(&entries, now)
      return entries.mapValues { $0.counts.values.reduce(0, +) }
    }
  }

  private static func interval(of time: Date) -> Int { Int(time.timeIntervalSince1970 / interval) }

  private static func hasPlace(for owner: Owner, _ entries: [Target: Entry]) -> Bool {
    var budget = SharedBudget<Owner>(places)
    for (target, entry) in entries where !target.isOthers { budget.add(of: entry.owner) }
    return budget.refusal(to: owner) == nil
  }

  private static func forget(_ entries: inout [Target: Entry], _ now: Date) {
    let first = interval(of: now - window)
    for (target, entry) in entries {
      if entry.counts.keys.contains(where: { $0 < first || $0 > interval(of: now) }) {
        entries[target]?.counts = entry.counts.filter { $0.key >= first && $0.key <= interval(of: now) }
      }
      if abs(now.timeIntervalSince(entry.seenAt)) >= window { entries[target] = nil }
    }
  }
}

extension UnservedTargets.Target {
  init(_ route: Route, _ wire: Wire) {
    self.init(route.provider, route.target, isUntrusted: wire.isOpen)
  }

  package init(
    _ provider: Route.Provider, _ text: String, isUntrusted: Bool,
    environment: APNsCredential.Environment? = nil
  ) {
    self.init(provider: provider, text: text.cut, isUntrusted: isUntrusted, environment: environment)
  }

  /// The target that stands for all those of its provider that are counted together.
  var others: Self { Self(provider: provider, text: nil, isUntrusted: isUntrusted) }

  var isOthers: Bool { text == nil }

  /// The route without a credential; nil for what stands for several targets.
  var route: Route? { text.map { Route(provider: provider, credential: "", target: $0) } }

  /// The target's name in logs: `apns org.example.chat`.
  package var description: String {
    route.map { "\($0)" + (environment.map { " (\($0.rawValue))" } ?? "") } ?? "\(provider.rawValue) (others)"
  }

  /// The bundle id or project; nil for the default project, and for what stands for several targets.
  package var target: String? { text.flatMap { $0.isEmpty ? nil : $0 } }
}
