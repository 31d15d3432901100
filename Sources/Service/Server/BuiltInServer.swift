import AsyncHTTPClient
import Basics
import Foundation
import HTTP
import HTTPClient
import Logging
import Operator
import Platform
import Registrations
import SQL
import Sealing
import ZulipBouncer
import ZulipServer

/// The built-in chat-server side and all that it uses.
struct BuiltInServer {
  let server: ZulipServerRoutes
  let accounts: AccountStore
  let devices: Devices
  let eventNotifier: EventNotifier
  let notifier: Notifier
  let bouncer: BouncerLink?
  /// The client for another program's bouncer; nil if this program's own bouncer is used.
  private let client: HTTPClient?

  /// - Parameters:
  ///   - ownBouncer: this program's bouncer.
  ///   - remoteBouncer: replaces a bouncer that would be reached over the network, for tests.
  static func build(
    _ core: Core, ownBouncer: Bouncer, remoteBouncer: (any BouncerCalls)?
  ) async throws -> BuiltInServer {
    let store = core.store
    let settings = core.configuration.zulipServer
    let logger = core.logger
    let eventNotifier = EventNotifier()
    var local: RemoteServer?
    var client: HTTPClient?
    var calls: (any BouncerCalls)?
    switch settings.bouncer {
    case .off: break
    case .local:
      let server = try await enrol(store.servers)
      local = server
      calls = OwnBouncer(ownBouncer, server: server.uuid, logger: logger)
    case .remote where remoteBouncer != nil: calls = remoteBouncer
    case .remote(let url):
      let remote = HTTPClient(
        eventLoopGroupProvider: .singleton, configuration: .outgoing(core.configuration.providers))
      client = remote
      calls = BouncerClient(
        url: url, id: settings.orgID ?? "", key: settings.orgKey ?? "", client: remote)
    }
    let devices = Devices(
      database: store.database, storageKey: store.storageKey, localServer: local?.id, now: store.now,
      changed: eventNotifier.wake)
    let bouncer = calls.map {
      BouncerLink(
        $0, accounts: store.accounts, devices: devices, isClockTrusted: store.isClockTrusted, logger: logger)
    }
    let notifier = Notifier(
      devices: devices, bouncer: bouncer,
      removal: settings.sendsRemovalsAsAlerts ? .alertingRemoval : .removal)
    let server = ZulipServerRoutes(
      core.configuration.server, http: core.configuration.http, accounts: store.accounts,
      eventNotifier: eventNotifier, notifier: notifier)
    return BuiltInServer(
      server: server, accounts: store.accounts, devices: devices, eventNotifier: eventNotifier,
      notifier: notifier, bouncer: bouncer, client: client)
  }

  /// The wire that Zulip's apps call, and the client of a bouncer of another program.
  func feature(logger: Logger) -> Feature {
    var feature = server.feature(bouncer, logger: logger)
    feature.close = { [client] in try? await client?.shutdown() }
    return feature
  }

  /// Registers the built-in side as one of the bouncer's chat servers. Its key is never used and never shown.
  private static func enrol(_ servers: RemoteServers) async throws -> RemoteServer {
    let hostname = RemoteServers.builtInHostname
    if let server = try await servers.find(hostname: hostname) { return server }
    do {
      return try await servers.add(hostname: Hostname(hostname), contactEmail: "root@\(hostname)").server
    } catch RemoteServers.RegistrationError.hostnameTaken {
      // Another node has registered it at the same time.
      guard let server = try await servers.find(hostname: hostname) else {
        throw RemoteServers.RegistrationError.hostnameTaken
      }
      return server
    }
  }
}

extension Feature {
  /// The API for host applications, including users and how their apps sign in.
  static func backend(
    _ side: BuiltInServer, _ nextcloud: NextcloudServerPart?, _ core: Core
  ) -> Feature {
    let routes = BackendRoutes(
      accounts: side.accounts, devices: side.devices, token: core.configuration.backend.token,
      notify: { try await notify($0, $1, side.notifier, nextcloud) },
      realmsChanged: { side.bouncer?.uploadRealms() })
    var feature = Feature()
    feature.routes = { routes.addRoutes(to: $0) }
    return feature
  }

  /// Sends all parts of a host application's notification concurrently.
  private static func notify(
    _ user: User, _ message: BackendRoutes.Message, _ notifier: Notifier, _ nextcloud: NextcloudServerPart?
  ) async throws -> [BackendRoutes.PartResult] {
    // All parts are validated before any of them is sent.
    let payload = try message.zulip?.members()
    let legacy = try message.legacy.map(LegacyNotification.init(backend:))
    let sendToPhones = try message.nextcloud.map { field in
      guard let nextcloud else { throw APIError("\(field.path): nextcloud.enabled is false") }
      return try nextcloud.message(field)
    }
    async let receipt: Result<JSON, any Error>? = {
      guard let sendToPhones else { return nil }
      do { return .success(try await sendToPhones(user)) } catch { return .failure(error) }
    }()
    let sent = try await notifier.notify(user, payload, legacy: legacy)
    var results: [BackendRoutes.PartResult] = []
    if let result = sent.encrypted { results.append(("zulip", result.map(\.json))) }
    if let result = sent.legacy { results.append(("legacy", result.map(\.legacyJSON))) }
    if let result = await receipt { results.append(("nextcloud", result)) }
    return results
  }
}
