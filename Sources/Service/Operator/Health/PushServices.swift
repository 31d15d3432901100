package import Delivery
package import Foundation
package import Providers

/// The health of Web Push. There are many push services, and anybody may choose one: the failure of one
/// concerns only its users. The operator is told of failures that affect everybody.
package struct PushServices: Sendable {
  /// The state of one push service.
  struct Service: Sendable {
    let route: Route
    let state: PushProviders.RouteState
    /// When it was last called; nil if it has not been called yet.
    let triedAt: Date?
    /// Whether it has ever answered successfully.
    let hasAnswered: Bool
  }

  /// A push service that does not work.
  struct Failing: Sendable, Hashable {
    let route: Route
    let reason: Reason
    let since: Date
    /// Whether its route is paused and only probed with single notifications.
    let isPaused: Bool
    let hasAnswered: Bool
    /// How many notifications wait for it.
    let waiting: Int
  }

  /// When the failure of Web Push as a whole began, and its most common reason.
  package struct Outage: Sendable, Hashable {
    let reason: Reason
    let since: Date
  }

  /// In seconds. Only push services that were called within this time count as recently used.
  static let memory: TimeInterval = 900
  /// How many failing push services are listed.
  static let mostListed = 10

  /// How many of the recently used push services work.
  package let working: Int
  /// How many of the recently used push services fail.
  package let failing: Int
  /// The failing ones with the most waiting notifications.
  let listed: [Failing]
  /// Notifications that wait for any push service.
  package let waiting: Int
  /// Registrations that push services report as dead and whose deletion is held back.
  let held: Int
  /// The failure of Web Push as a whole; nil if there is none.
  package let outage: Outage?
  /// The state of each recently used push service.
  let states: [Route: PushProviders.RouteState]

  /// The state of Web Push as one route; nil if no push service was used recently.
  var state: PushProviders.RouteState? {
    outage.map { .failing($0.reason, since: $0.since) } ?? (working > 0 ? .ok : nil)
  }

  /// The current health.
  ///
  /// - Parameters:
  ///   - held: deletions held back, from ``Deliverer/held``.
  ///   - own: the operator's own push services (`webpush.allow_private_hosts`).
  package init(_ providers: PushProviders, _ outbox: Outbox, held: [Doubt], own: Set<String>, now: Date) {
    self.init(
      providers.webPushSenders.map {
        Service(route: $0.route, state: $0.state, triedAt: $0.triedAt, hasAnswered: $0.hasAnswered)
      },
      waiting: outbox.counts(of: .webPush),
      held: held.filter(\.route.isOfHost).map(\.held).reduce(0, +), own: own, now: now)
  }

  /// - Parameter waiting: the number of waiting notifications, by push service.
  init(_ services: [Service], waiting: [Route: Int], held: Int = 0, own: Set<String> = [], now: Date) {
    // A time after `now` means that the clock was put back.
    let used = services.filter { $0.triedAt.map { abs(now.timeIntervalSince($0)) < Self.memory } ?? false }
    let working = used.filter { $0.state == .ok }
    let failing = used.compactMap { service in
      service.state.failure.map {
        Failing(
          route: service.route, reason: $0.reason, since: $0.since, isPaused: service.state.isOpen,
          hasAnswered: service.hasAnswered, waiting: waiting[service.route] ?? 0)
      }
    }
    states = Dictionary(used.map { ($0.route, $0.state) }) { $1 }
    self.working = working.count
    self.failing = failing.count
    self.waiting = waiting.values.reduce(0, +)
    self.held = held
    listed = Array(
      failing.sorted { ($1.waiting, $0.route.credential) < ($0.waiting, $1.route.credential) }
        .prefix(Self.mostListed))
    outage = Self.outage(working.map(\.route), failing, own)
  }

  /// Web Push as a whole fails if one of the operator's own push services fails; if none works, and a failing
  /// one has worked before; or if at least three fail, and at least four times as many as work. Push services
  /// of one domain count once, and count as working if one of them works, because one person can own any
  /// number of them. While others work, hosts that have never worked do not count, because anybody can make
  /// up such hosts.
  private static func outage(_ working: [Route], _ failing: [Failing], _ own: Set<String>) -> Outage? {
    guard !failing.isEmpty else { return nil }
    let good = Set(working.map(\.domain))
    let counted = working.isEmpty ? failing : failing.filter(\.hasAnswered)
    let bad = Dictionary(counted.map { ($0.route.domain, $0.since) }, uniquingKeysWith: min)
      .filter { !good.contains($0.key) }
    let needed = max(3, 4 * good.count)
    // Each condition that holds gives a time; the outage began at the earliest of them.
    let ours = failing.filter { own.contains($0.route.host) }.map(\.since).min()
    let only = working.isEmpty ? failing.filter(\.hasAnswered).map(\.since).min() : nil
    let most = bad.values.sorted().dropFirst(needed - 1).first
    guard let since = [ours, only, most].compactMap(\.self).min() else { return nil }
    let reasons = Dictionary(failing.map { ($0.reason, 1) }, uniquingKeysWith: +)
    let reason = reasons.max { ($0.value, $1.key.rawValue) < ($1.value, $0.key.rawValue) }?.key
    return Outage(reason: reason ?? .unknown, since: since)
  }
}

extension Route {
  /// The push service's host name or address, without its port.
  var host: String {
    let parts = credential.split(separator: ":")
    let name = parts.count == 2 ? parts[0] : Substring(credential)
    // IPv6 addresses are in brackets.
    return String(name.prefix { $0 != "]" }.drop { $0 == "[" })
  }

  /// Approximates the owner's domain: the last two labels of the host name, or an IP address itself.
  fileprivate var domain: String {
    let labels = host.split(separator: ".")
    guard labels.count > 1, labels.last?.first?.isNumber == false else { return credential }
    return labels.suffix(2).joined(separator: ".")
  }
}
