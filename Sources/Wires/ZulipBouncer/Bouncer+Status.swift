import Basics
import Delivery
import Foundation
import HTTP
import Providers
import Registrations
import Sealing

/// The answer to a chat server's admin who asks why notifications do not arrive.
package struct PushStatus: Sendable {
  /// A route that some of the registrations need.
  struct RouteHealth: Sendable {
    let provider: Route.Provider
    /// Bundle id, Firebase project or push service; nil: the default project.
    let target: String?
    /// The route's state; nil if no credential serves it.
    let state: PushProviders.RouteState?
  }

  /// One page: the encrypted ones, then the legacy ones.
  let registrations: [FoundDevice]
  /// The end of the page, if more follow.
  let end: DeviceSearch.Mark?
  /// The routes that the registrations of this page need.
  let routes: [RouteHealth]
  /// Numbers of notifications that the server sent in the last ``hours``, and of those that were refused at once.
  let sent, refused: Int64
  /// Registrations with a notification that was refused in that time, the latest first.
  let refusals: [FoundDevice]
  /// Refused calls to register devices in that time.
  let refusedRegistrations: [HourlyCounts.RefusedRegistrations]
  /// The limit of the server's notifications; nil if there is none.
  let pace: RateLimit?
  /// Seconds by which the server's next notification would be postponed.
  let delay: TimeInterval

  static let hours = 24
  static let maximumRegistrations = 100
  static let maximumRefusals = 20
}

extension Bouncer {
  /// A server's registrations, routes and refusals.
  ///
  /// - Parameter last: the end of the page before.
  func status(
    of server: RemoteServer, _ selection: DeviceSearch.Selection, after last: DeviceSearch.Mark?, limit: Int
  ) async throws -> PushStatus {
    let search = DeviceSearch(database: database, storageKey: storageKey)
    let (registrations, end) = try await search.page(selection, after: last, size: limit)
    let counts = HourlyCounts(database: database, now: now)
    let hours = try await counts.report(ofServer: server.id, hours: PushStatus.hours)
    let refused = try await counts.refusedRegistrations(ofServer: server.id, hours: PushStatus.hours)
    let refusals = try await search.failures(
      ofServer: server.id, since: now() - Double(PushStatus.hours) * 3600, limit: PushStatus.maximumRefusals)
    return PushStatus(
      registrations: registrations, end: end, routes: routes(of: registrations),
      sent: hours.map(\.sent).reduce(0, +), refused: hours.map(\.failed).reduce(0, +), refusals: refusals,
      refusedRegistrations: refused, pace: settings.notificationsPerServer,
      delay: pace.delay(of: server.id))
  }

  private func routes(of registrations: [FoundDevice]) -> [PushStatus.RouteHealth] {
    struct Target: Hashable {
      let provider: Route.Provider
      let target: String?
      /// Whether the key of the token's environment is gone.
      let isLost: Bool
    }
    let providers = deliverer.providers
    let targets = Set(
      registrations.filter { $0.endedAt == nil }.compactMap { device in
        Route.Provider(rawValue: device.provider).map { provider in
          let target = provider.definition.targetsApps ? device.app : device.target
          let route = Route(provider: provider, credential: "", target: target ?? "")
          let isLost = device.environment.map { !providers.serves(route, in: $0) } ?? false
          return Target(provider: provider, target: target, isLost: isLost)
        }
      })
    let states = deliverer.routeStates()
    return targets.map { needed in
      let sender = needed.isLost ? nil : providers.routeSender(needed.provider, target: needed.target)
      // A push service that was never called has no state yet.
      let unknown: PushProviders.RouteState? =
        needed.provider.definition.hasHosts && providers.hasHosts ? .unknown : nil
      return PushStatus.RouteHealth(
        provider: needed.provider,
        target: sender.map { $0.route.target.isEmpty ? $0.route.credential : $0.route.target }
          ?? needed.target,
        state: sender.map { states[$0.route] ?? $0.state } ?? unknown)
    }.sorted { ($0.provider.rawValue, $0.target ?? "") < ($1.provider.rawValue, $1.target ?? "") }
  }
}
