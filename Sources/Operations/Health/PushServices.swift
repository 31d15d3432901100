package import Delivery
package import Foundation
package import Providers

/// How Web Push fares. Its push services are many and chosen by strangers: one that fails is the matter of those who
/// chose it, and only what concerns everybody is the operator's.
package struct PushServices: Sendable {
  /// A push service as its sender knows it.
  struct Service: Sendable {
    let route: Route
    let state: PushProviders.RouteState
    /// When it was last asked; nil: not yet.
    let triedAt: Date?
    /// Whether it has ever answered.
    let hasAnswered: Bool
  }

  /// One that does not work.
  struct Failing: Sendable, Hashable {
    let route: Route
    let reason: Reason
    let since: Date
    /// Whether only single tries are made.
    let isPaused: Bool
    let hasAnswered: Bool
    /// Notifications that wait for it.
    let waiting: Int
  }

  /// Since when it is everybody's matter, and why most of them fail.
  package struct Outage: Sendable, Hashable {
    let reason: Reason
    let since: Date
  }

  /// Those that were asked within so many seconds count: what was longer ago tells nothing of the present.
  static let memory: TimeInterval = 900
  /// As many failing ones are listed.
  static let mostListed = 10

  /// How many were used of late and work.
  package let working: Int
  /// How many were used of late and do not.
  package let failing: Int
  /// Those of them for which most waits.
  let listed: [Failing]
  /// Notifications that wait for any.
  package let waiting: Int
  /// Registrations that push services call dead and that are kept.
  let held: Int
  /// Why it is everybody's matter; nil while it is not.
  package let outage: Outage?
  /// The state of each that was used of late.
  let states: [Route: PushProviders.RouteState]

  /// All of it as one route; nil where nothing tells how it is.
  var state: PushProviders.RouteState? {
    outage.map { .failing($0.reason, since: $0.since) } ?? (working > 0 ? .ok : nil)
  }

  /// As they are now.
  ///
  /// - Parameters:
  ///   - held: registrations that are kept though called dead, as ``Deliverer/held`` tells.
  ///   - own: the operator's own (`webpush.allow_private_hosts`).
  package init(_ providers: PushProviders, _ outbox: Outbox, held: [Doubt], own: Set<String>, now: Date) {
    self.init(
      providers.webPushSenders.map {
        Service(route: $0.route, state: $0.state, triedAt: $0.triedAt, hasAnswered: $0.hasAnswered)
      },
      waiting: outbox.counts(of: .webPush),
      held: held.filter { $0.route.provider == .webPush }.map(\.held).reduce(0, +), own: own, now: now)
  }

  /// - Parameter waiting: notifications that wait, by push service.
  init(_ services: [Service], waiting: [Route: Int], held: Int = 0, own: Set<String> = [], now: Date) {
    // After now: the clock was put back.
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
    (self.working, self.failing) = (working.count, failing.count)
    self.waiting = waiting.values.reduce(0, +)
    self.held = held
    listed = Array(
      failing.sorted { ($1.waiting, $0.route.credential) < ($0.waiting, $1.route.credential) }
        .prefix(Self.mostListed))
    outage = Self.outage(working.map(\.route), failing, own)
  }

  /// It is everybody's matter where one of the operator's own fails; where none works, and one of those that fail has
  /// worked before; and where at least three fail, and four times as many as work. Those of one domain count once,
  /// and work if one of them does: one person can have any number of them. Nor do names count that have never been a push
  /// service's, while others work: anybody can think of such.
  private static func outage(_ working: [Route], _ failing: [Failing], _ own: Set<String>) -> Outage? {
    guard !failing.isEmpty else { return nil }
    let good = Set(working.map(\.domain))
    let counted = working.isEmpty ? failing : failing.filter(\.hasAnswered)
    let bad = Dictionary(counted.map { ($0.route.domain, $0.since) }, uniquingKeysWith: min)
      .filter { !good.contains($0.key) }
    let needed = max(3, 4 * good.count)
    // Each of the three says since when.
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
  /// The push service's name or address, without a port.
  var host: String {
    let parts = credential.split(separator: ":")
    let name = parts.count == 2 ? parts[0] : Substring(credential)
    // An IPv6 address stands in brackets.
    return String(name.prefix { $0 != "]" }.drop { $0 == "[" })
  }

  /// What all push services of one owner are under, most likely: the last two labels of a name; else the push service
  /// by itself.
  fileprivate var domain: String {
    let labels = host.split(separator: ".")
    guard labels.count > 1, labels.last?.first?.isNumber == false else { return credential }
    return labels.suffix(2).joined(separator: ".")
  }
}
