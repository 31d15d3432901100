import AsyncHTTPClient
import Foundation
import HTTP
import Logging
import NextcloudServer
import Operations
import Registrations
import Sealing
import ZulipBouncer
import ZulipServer

/// The built-in chat-server side with everything it needs.
struct BuiltInServer {
  let server: ZulipServerRoutes
  let accounts: AccountStore
  let devices: Devices
  let eventNotifier: EventNotifier
  let notifier: Notifier
  let realms: RealmUpload?
  let registrar: Registrar?
  let unregistrar: LegacyUnregistrar?
  /// To another program's bouncer.
  private let client: HTTPClient?

  /// - Parameters:
  ///   - ownBouncer: this program's.
  ///   - remoteBouncer: used in the place of one that is reached through the network.
  static func build(
    _ configuration: Configuration, store: Store, ownBouncer: ZulipBouncerRoutes,
    remoteBouncer: (any Bouncer)?, logger: Logger
  ) async throws -> BuiltInServer {
    let accounts = store.accounts
    let eventNotifier = EventNotifier()
    var local: RemoteServer?
    var client: HTTPClient?
    let bouncerInUse: (any Bouncer)?
    switch configuration.server.bouncer {
    case .off: bouncerInUse = nil
    case .local:
      let server = try await enrol(store.servers)
      local = server
      bouncerInUse = OwnBouncer(bouncer: ownBouncer, server: server.uuid, logger: logger)
    case .remote where remoteBouncer != nil: bouncerInUse = remoteBouncer
    case .remote(let url):
      let remote = HTTPClient(
        eventLoopGroupProvider: .singleton, configuration: .outgoing(configuration.providers))
      client = remote
      bouncerInUse = BouncerClient.remote(
        url: url, id: configuration.server.orgID ?? "", key: configuration.server.orgKey ?? "", client: remote
      )
    }
    let devices = Devices(
      database: store.database, storageKey: store.storageKey, localServer: local?.id, now: store.now,
      changed: eventNotifier.ring)
    let bouncer = bouncerInUse.map { client in
      (
        client: client,
        realms: RealmUpload(accounts: accounts, bouncer: client, now: store.now, logger: logger)
      )
    }
    let notifier = Notifier(
      devices: devices, bouncer: bouncer,
      removal: configuration.server.alertsOnRemoval ? .alertingRemoval : .removal)
    let registrar = bouncer.map { bouncer in
      Registrar(
        devices: devices, bouncer: bouncer.client, realms: bouncer.realms, now: store.now,
        mayExpire: store.mayExpire, logger: logger)
    }
    let unregistrar = bouncer.map { bouncer in
      LegacyUnregistrar(
        tokens: devices.legacyTokens, bouncer: bouncer.client, now: store.now, logger: logger)
    }
    let server = ZulipServerRoutes(
      configuration: .init(
        rateLimitPerUser: configuration.server.rateLimitPerUser,
        maximumBodyBytes: configuration.http.maxBodyBytes),
      dependencies: .init(
        accounts: accounts, devices: devices, eventNotifier: eventNotifier, registrar: registrar,
        unregistrar: unregistrar,
        notifier: notifier,
        now: store.now))
    return BuiltInServer(
      server: server, accounts: accounts, devices: devices, eventNotifier: eventNotifier, notifier: notifier,
      realms: bouncer?.realms, registrar: registrar, unregistrar: unregistrar,
      client: client)
  }

  /// Works in the background until its task is cancelled.
  func run(logger: Logger) async {
    await withTaskGroup { group in
      group.addTask {
        await EventPoller(devices: devices, eventNotifier: eventNotifier, logger: logger).run()
      }
      if let realms { group.addTask { await realms.run() } }
      if let registrar { group.addTask { await registrar.run() } }
      if let unregistrar { group.addTask { await unregistrar.run() } }
    }
  }

  func close() async {
    try? await client?.shutdown()
  }

  /// Makes it one of the bouncer's chat servers. The key that it gets is never used and never shown.
  private static func enrol(_ servers: RemoteServers) async throws -> RemoteServer {
    let hostname = RemoteServers.builtInHostname
    if let server = try await servers.find(hostname: hostname) { return server }
    do {
      return try await servers.add(hostname: Hostname(hostname), contactEmail: "root@\(hostname)").server
    } catch RemoteServers.Refusal.hostnameTaken {
      // Another node was faster.
      guard let server = try await servers.find(hostname: hostname) else {
        throw RemoteServers.Refusal.hostnameTaken
      }
      return server
    }
  }
}

extension BackendRoutes {
  /// Sends the parts of the host application's notifications, each by its way, side by side.
  static func ways(
    _ builtIn: BuiltInServer, _ nextcloud: NextcloudAdapter?
  ) -> @Sendable (User, Message) async throws -> [PartResult] {
    { user, message in
      // All of it is read before any of it is sent.
      let zulip = Notifier.Message(
        encrypted: try message.zulip?.members(), legacy: try message.legacy.map(LegacyMessage.init))
      let phones = try message.nextcloud.map(NextcloudMessage.init)
      if let field = message.nextcloud, nextcloud == nil {
        throw APIError("\(field.path): nextcloud.enabled is false")
      }
      async let receipt = send(phones, to: user, nextcloud)
      let outcome = try await builtIn.notifier.notify(user, zulip)
      var results: [PartResult] = []
      if let result = outcome.encrypted { results.append(.init("zulip", result.map(\.json))) }
      if let result = outcome.legacy { results.append(.init("legacy", result.map(\.json))) }
      if let result = await receipt { results.append(.init("nextcloud", result)) }
      return results
    }
  }

  private static func send(
    _ message: NextcloudMessage?, to user: User, _ nextcloud: NextcloudAdapter?
  ) async -> Result<JSON, any Error>? {
    guard let message, let nextcloud else { return nil }
    do {
      return .success(try await nextcloud.sender.notify(user, message).json)
    } catch {
      return .failure(error)
    }
  }
}
