import Foundation
import HTTPClient
package import Providers
import Registrations
import Synchronization

/// How many notifications came in the last hour for each app and Firebase project that no credential serves.
///
/// Names of apps come from outside, so the number of those remembered is limited, and each chat server has a share of
/// the places (``FairShare``). What finds no place is counted together.
package final class UnservedTargets: Sendable {
  package struct Target: Sendable, Hashable, CustomStringConvertible {
    package let provider: Route.Provider
    /// The bundle id or project; empty for the default project, for Web Push and for a bouncer; nil for all that
    /// found no place.
    let text: String?
    /// Whether its devices were registered at the push proxy, as anybody may.
    package let isUntrusted: Bool
    /// Set if a credential serves the bundle id, but only in APNs' other environment.
    package var environment: APNsCredential.Environment?
  }

  private struct Entry {
    let owner: Owner
    /// Notifications by the interval in which they came.
    var counts: [Int: Int] = [:]
    var seenAt: Date
    var toldAt = Date.distantPast
  }

  static let places = 64
  /// In seconds.
  private static let memory = 3600.0
  /// Counts are kept for intervals of this length, in seconds.
  private static let interval = 300.0

  private let entries = Mutex<[Target: Entry]>([:])

  /// Notes notifications for a target, or that some still wait (`count` is 0).
  ///
  /// - Returns: whether to log it, which is once in an hour.
  func note(_ target: Target, _ count: Int, of owner: Owner, now: Date) -> Bool {
    entries.withLock { entries in
      Self.forget(&entries, now)
      let target = entries[target] != nil || Self.hasPlace(for: owner, entries) ? target : target.rest
      var entry = entries[target] ?? Entry(owner: owner, seenAt: now)
      if count > 0 { entry.counts[Self.interval(of: now), default: 0] += count }
      entry.seenAt = now
      // A time before the last log means that the clock was put back.
      let isTold = (0..<Self.memory).contains(now.timeIntervalSince(entry.toldAt))
      if !isTold { entry.toldAt = now }
      entries[target] = entry
      return !isTold
    }
  }

  /// Number of notifications of the last hour, for each target that had some, or of which some still wait.
  func counts(now: Date) -> [Target: Int] {
    entries.withLock { entries in
      Self.forget(&entries, now)
      return entries.mapValues { $0.counts.values.reduce(0, +) }
    }
  }

  private static func interval(of time: Date) -> Int { Int(time.timeIntervalSince1970 / interval) }

  private static func hasPlace(for owner: Owner, _ entries: [Target: Entry]) -> Bool {
    let named = entries.filter { !$0.key.isRest }
    return FairShare.allows(own: named.count { $0.value.owner == owner }, total: named.count, limit: places)
  }

  private static func forget(_ entries: inout [Target: Entry], _ now: Date) {
    let first = interval(of: now - memory)
    for (target, entry) in entries {
      if entry.counts.keys.contains(where: { $0 < first || $0 > interval(of: now) }) {
        entries[target]?.counts = entry.counts.filter { $0.key >= first && $0.key <= interval(of: now) }
      }
      if abs(now.timeIntervalSince(entry.seenAt)) >= memory { entries[target] = nil }
    }
  }
}

extension UnservedTargets.Target {
  init(_ route: Route, _ kind: RegistrationReference.Kind) {
    self.init(route.provider, route.target, isUntrusted: kind == .nextcloud)
  }

  package init(
    _ provider: Route.Provider, _ text: String, isUntrusted: Bool,
    environment: APNsCredential.Environment? = nil
  ) {
    self.init(provider: provider, text: text, isUntrusted: isUntrusted, environment: environment)
  }

  /// Stands for all targets of the provider that found no place.
  var rest: Self { Self(provider: provider, text: nil, isUntrusted: isUntrusted) }

  var isRest: Bool { text == nil }

  /// Nil for what stands for several targets.
  var route: Route? { text.map { Route(provider: provider, credential: "", target: $0) } }

  /// As it appears in logs: `apns org.example.chat`.
  package var description: String {
    route.map { "\($0)" + (environment.map { " (\($0.rawValue))" } ?? "") } ?? "\(provider.rawValue) (others)"
  }

  /// The bundle id or project; nil for the default project, and for what stands for several targets.
  package var target: String? { text.flatMap { $0.isEmpty ? nil : $0 } }
}
