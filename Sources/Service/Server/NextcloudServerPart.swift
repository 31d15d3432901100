import AsyncHTTPClient
import Basics
import Delivery
import Foundation
import HTTP
import HTTPClient
import NextcloudProxy
import NextcloudServer
import Operator
import Platform
import Providers
import Registrations
import SQL
import Sealing

/// The server side for Nextcloud's apps, and its sender.
struct NextcloudServerPart {
  private let routes: NextcloudServerRoutes
  let sender: NextcloudSender
  private let client: OutgoingClient

  var feature: Feature {
    var feature = routes.feature
    feature.close = { [client] in await client.shutdown() }
    return feature
  }

  /// - Parameter own: this program's push proxy, which is called directly.
  init(_ core: Core, own: NextcloudProxyPart) throws {
    let configuration = core.configuration
    let store = core.store
    let settings = configuration.nextcloudServer
    let roots =
      try settings.proxiesCAFile.map {
        try PEMFile($0, key: "nextcloud.proxies_ca_file").certificates()
      } ?? []
    client = OutgoingClient(configuration: .outgoing(configuration.providers, trusting: roots)) {
      IPAddress($0)?.isPublic == true
    }
    let webPush = NextcloudWebPush(
      subscriptions: NextcloudSubscriptions(
        database: store.database, storageKey: store.storageKey, now: store.now),
      settings, deliverer: core.deliverer)
    // The address depends on the port, which is known once the service listens.
    sender = NextcloudSender(
      settings, delivery: configuration.delivery, own: own.proxy,
      ownAddress: configuration.http.publicAddress(listeningOn: core.publicPort),
      proxies: ProxyClient(client), webPush: webPush,
      database: store.database, storageKey: store.storageKey, now: store.now,
      isClockTrusted: store.isClockTrusted, logger: core.logger)
    routes = NextcloudServerRoutes(
      configuration.server, http: configuration.http, accounts: store.accounts,
      loginFlows: NextcloudLoginFlows(accounts: store.accounts), apps: own.apps,
      addedCapabilities: try AddedCapabilities.configured(settings), sender: sender)
  }

  /// Cleans up after users' notifications and logins, even if it has been switched off since.
  static func cleanup(_ core: Core) -> Feature {
    let store = core.store
    let notifications = NextcloudNotifications(
      database: store.database, storageKey: store.storageKey, now: store.now)
    let flows = NextcloudLoginFlows(accounts: store.accounts)
    var feature = core.configuration.nextcloudServer.cleanup(notifications, now: core.now)
    feature.removals.append(Removal { try await flows.removeOld(limit: $0) })
    return feature
  }

  /// Reads a host application's notification for Nextcloud's apps.
  ///
  /// - Returns: what sends it to a user, and says what became of it.
  func message(_ field: Field) throws -> @Sendable (User) async throws -> JSON {
    let message = try NextcloudMessage(field)
    return { [sender] user in try await sender.notify(user, message).json }
  }
}
