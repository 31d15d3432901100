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
  fileprivate let client: HTTPClient?

  /// - Parameter remoteBouncer: used in the place of one that is reached through the network.
  static func build(_ core: Core, remoteBouncer: (any Bouncer)?) async throws -> BuiltInServer {
    let (store, settings, logger) = (core.store, core.configuration.server, core.logger)
    let eventNotifier = EventNotifier()
    var (local, client, bouncer) = (nil as RemoteServer?, nil as HTTPClient?, nil as (any Bouncer)?)
    switch settings.bouncer {
    case .off: break
    case .local:
      let server = try await enrol(store.servers)
      local = server
      bouncer = OwnBouncer(
        bouncer: ZulipBouncerRoutes(core, isBuiltIn: true), server: server.uuid, logger: logger)
    case .remote where remoteBouncer != nil: bouncer = remoteBouncer
    case .remote(let url):
      let remote = HTTPClient(
        eventLoopGroupProvider: .singleton, configuration: .outgoing(core.configuration.providers))
      client = remote
      bouncer = BouncerClient.remote(
        url: url, id: settings.orgID ?? "", key: settings.orgKey ?? "", client: remote)
    }
    let devices = Devices(
      database: store.database, storageKey: store.storageKey, localServer: local?.id, now: store.now,
      changed: eventNotifier.ring)
    let realms = bouncer.map {
      RealmUpload(accounts: store.accounts, bouncer: $0, now: store.now, logger: logger)
    }
    var used: (client: any Bouncer, realms: RealmUpload)?
    if let bouncer, let realms { used = (bouncer, realms) }
    let notifier = Notifier(
      devices: devices, bouncer: used, removal: settings.alertsOnRemoval ? .alertingRemoval : .removal)
    let registrar = used.map { bouncer in
      Registrar(
        devices: devices, bouncer: bouncer.client, realms: bouncer.realms, now: store.now,
        mayExpire: store.mayExpire, logger: logger)
    }
    let unregistrar = bouncer.map {
      LegacyUnregistrar(tokens: devices.legacyTokens, bouncer: $0, now: store.now, logger: logger)
    }
    let server = ZulipServerRoutes(
      configuration: .init(
        rateLimitPerUser: settings.rateLimitPerUser, maximumBodyBytes: core.configuration.http.maxBodyBytes),
      dependencies: .init(
        accounts: store.accounts, devices: devices, eventNotifier: eventNotifier, registrar: registrar,
        unregistrar: unregistrar, notifier: notifier, now: store.now))
    return BuiltInServer(
      server: server, accounts: store.accounts, devices: devices, eventNotifier: eventNotifier,
      notifier: notifier, realms: realms, registrar: registrar, unregistrar: unregistrar, client: client)
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

extension Feature {
  /// The built-in chat-server side.
  static func chatServer(_ side: BuiltInServer, _ core: Core) -> Feature {
    let (devices, logger) = (side.devices, core.logger)
    var feature = Feature(
      routes: { side.server.addRoutes(to: $0) },
      gauges: { metrics in
        metrics.gauge("push_bouncer_event_waiters") { Double(side.eventNotifier.waiters) }
        metrics.gauge("push_bouncer_device_registrations_pending") { Double(try await devices.jobCount()) }
        metrics.gauge("push_bouncer_legacy_unregistrations_pending") {
          Double(try await devices.legacyTokens.jobCount())
        }
      },
      close: { try? await side.client?.shutdown() },
      work: [
        {
          await EventPoller(devices: devices, eventNotifier: side.eventNotifier, logger: logger).run()
        }
      ],
      drain: { side.eventNotifier.close() },
      removals: [.init { try await devices.removeOldEvents(limit: $0) }],
      queues: [devices.bringForward, devices.legacyTokens.bringForward])
    if let realms = side.realms { feature.work.append { await realms.run() } }
    if let registrar = side.registrar { feature.work.append { await registrar.run() } }
    if let unregistrar = side.unregistrar { feature.work.append { await unregistrar.run() } }
    return feature
  }

  /// What host applications call, with the users and the ways that their apps sign in.
  static func backend(_ side: BuiltInServer, _ nextcloud: NextcloudAdapter?, _ core: Core) -> Feature {
    let flows = core.store.nextcloudLoginFlows
    let routes = BackendRoutes(
      accounts: side.accounts, devices: side.devices, loginFlows: flows,
      token: core.configuration.backend.token, notify: { try await notify($0, $1, side.notifier, nextcloud) },
      realmsChanged: { side.realms?.request() }, now: core.now)
    return Feature(
      routes: { routes.addRoutes(to: $0) }, removals: [.init { try await flows.removeOld(limit: $0) }])
  }

  /// Sends the parts of a host application's notification, each by its way, side by side.
  private static func notify(
    _ user: User, _ message: BackendRoutes.Message, _ notifier: Notifier, _ nextcloud: NextcloudAdapter?
  ) async throws -> [BackendRoutes.PartResult] {
    // All of it is read before any of it is sent.
    let zulip = Notifier.Message(
      encrypted: try message.zulip?.members(), legacy: try message.legacy.map(LegacyMessage.init))
    let phones = try message.nextcloud.map(NextcloudMessage.init)
    if let field = message.nextcloud, nextcloud == nil {
      throw APIError("\(field.path): nextcloud.enabled is false")
    }
    async let receipt: Result<JSON, any Error>? = {
      guard let phones, let nextcloud else { return nil }
      do { return .success(try await nextcloud.sender.notify(user, phones).json) } catch {
        return .failure(error)
      }
    }()
    let outcome = try await notifier.notify(user, zulip)
    var results: [BackendRoutes.PartResult] = []
    if let result = outcome.encrypted { results.append(.init("zulip", result.map(\.json))) }
    if let result = outcome.legacy { results.append(.init("legacy", result.map(\.json))) }
    if let result = await receipt { results.append(.init("nextcloud", result)) }
    return results
  }
}
