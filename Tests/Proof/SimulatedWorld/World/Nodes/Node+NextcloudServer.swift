import Delivery
import Foundation
import HTTPClient
import Logging
import NIOCore
import NextcloudProxy
import NextcloudServer
import Operator
import Providers
import Registrations
import SQL
import Sealing

extension Node {
  /// The server side for Nextcloud's apps, if the world has a chat with them. It calls other proxies than the node's
  /// own over the simulated network: any node may take the call, and the call may fail.
  func nextcloudServer(
    _ settings: Configuration, proxy: PushProxy, database: any Database, storageKey: StorageKey,
    deliverer: Deliverer, now: @escaping @Sendable () -> Date, isClockTrusted: @escaping @Sendable () -> Bool,
    logger: Logger
  ) -> (routes: NextcloudServerRoutes, sender: NextcloudSender) {
    let life = life
    let accounts = AccountStore(database: database, storageKey: storageKey, now: now)
    let proxies = ProxyClient { [world] call in
      guard let answer = await world.nextcloudChat?.wire.post(call, from: life), life.isAlive else {
        throw OutgoingClient.HostError.unknownHost
      }
      return OutgoingClient.Response(status: answer.status, body: ByteBuffer(string: answer.text))
    }
    let webPush = NextcloudWebPush(
      subscriptions: NextcloudSubscriptions(database: database, storageKey: storageKey, now: now),
      settings.nextcloudServer, deliverer: deliverer)
    let sender = NextcloudSender(
      settings.nextcloudServer, delivery: settings.delivery, own: proxy,
      ownAddress: { NextcloudChat.ownProxy }, proxies: proxies, webPush: webPush,
      database: database, storageKey: storageKey, now: now, isClockTrusted: isClockTrusted, logger: logger)
    return (
      NextcloudServerRoutes(
        settings.server, http: settings.http, accounts: accounts,
        loginFlows: NextcloudLoginFlows(accounts: accounts), apps: NextcloudApps(),
        addedCapabilities: AddedCapabilities(),
        sender: sender), sender
    )
  }
}
