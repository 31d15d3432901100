package import AsyncHTTPClient
import Delivery
import Foundation
import HTTP
import HTTPClient
import Hummingbird
import Logging
package import NIOSSL
package import NextcloudProxy
import NextcloudServer
import Operator
import Platform
package import Providers
import Registrations
internal import SQL
import Sealing
package import Settings

/// The Nextcloud adapter and all that it uses: the push proxy, and the server side with its sender.
struct NextcloudAdapter {
  fileprivate let proxy: NextcloudProxyRoutes
  fileprivate let server: NextcloudServerRoutes
  fileprivate let client: OutgoingClient
  let sender: NextcloudSender
  /// The Web Push subscriptions of the server side's users.
  let webPush: NextcloudWebPush
  /// The push proxy's devices.
  let devices: NextcloudDevices

  /// The phones of the server side's users.
  var registrations: NextcloudRegistrations { sender.registrations }
  /// Pushes that no push proxy has accepted yet.
  var pushes: NextcloudPushes { sender.pushes }

  static func build(_ core: Core) throws -> NextcloudAdapter {
    let (configuration, store, logger) = (core.configuration, core.store, core.logger)
    let settings = configuration.nextcloudServer
    let (apps, devices) = (try NextcloudApps.configured(configuration.nextcloudProxy), store.nextcloudDevices)
    // The address depends on the port, which is known once the service listens.
    let publicURL = configuration.http.publicAddress(listeningOn: core.publicPort)
    let proxy = PushProxy(
      configuration.nextcloudProxy, http: configuration.http, apps: apps, devices: devices,
      recorder: store.registrations,
      deliverer: core.deliverer, lossDetector: core.lossDetector, logger: logger)
    let roots =
      try settings.proxiesCAFile.map {
        try PEMFile($0, key: "nextcloud.proxies_ca_file").certificates()
      } ?? []
    let client = OutgoingClient(configuration: .outgoing(configuration.providers, trusting: roots)) {
      IPAddress($0)?.isPublic == true
    }
    let webPush = NextcloudWebPush(
      subscriptions: NextcloudSubscriptions(
        database: store.database, storageKey: store.storageKey, now: store.now),
      settings, deliverer: core.deliverer)
    let sender = NextcloudSender(
      settings, delivery: configuration.delivery, own: proxy, ownAddress: publicURL,
      proxies: ProxyClient(client), webPush: webPush,
      database: store.database, storageKey: store.storageKey, now: store.now, mayExpire: store.mayExpire,
      logger: logger)
    let server = NextcloudServerRoutes(
      configuration.server, http: configuration.http, accounts: store.accounts,
      loginFlows: store.nextcloudLoginFlows, apps: apps,
      addedCapabilities: try AddedCapabilities.configured(settings), sender: sender)
    return NextcloudAdapter(
      proxy: NextcloudProxyRoutes(proxy), server: server, client: client,
      sender: sender, webPush: webPush, devices: devices)
  }
}

extension NextcloudApps {
  /// The built-in apps and the operator's own builds and brands.
  package static func configured(_ settings: NextcloudProxySettings) throws(Fault) -> NextcloudApps {
    var own: [NextcloudApp] = []
    if let file = settings.appsFile {
      let key = "nextcloud.apps_file"
      let bytes = try PrivateFile.contents(of: file, atMost: 4 << 20, key: key)
      do {
        own = try NextcloudApp.read(bytes)
      } catch {
        throw Fault(
          key: key, "names \(file): \(error.description)",
          advice: "correct it; Documentation/GettingStarted/NextcloudBrand.md shows one")
      }
    }
    do {
      return try NextcloudApps(own: own, default: settings.defaultApp)
    } catch {
      throw Fault(key: "nextcloud.default_app", error.description, advice: "name one of them, or none")
    }
  }
}

extension AddedCapabilities {
  /// What `nextcloud.capabilities_file` adds; nothing if it is not set.
  static func configured(_ settings: NextcloudServerSettings) throws(Fault) -> AddedCapabilities {
    guard let file = settings.capabilitiesFile else { return AddedCapabilities() }
    let key = "nextcloud.capabilities_file"
    let bytes = try PrivateFile.contents(of: file, atMost: maximumBytes, key: key)
    do {
      return try AddedCapabilities(bytes)
    } catch {
      throw Fault(
        key: key, "names \(file), which \(error.description)",
        advice: "correct it; Documentation/GettingStarted/OwnChat.md shows one")
    }
  }
}

extension Feature {
  /// The Nextcloud push proxy, and the server side for Nextcloud's apps.
  static func nextcloud(_ nextcloud: NextcloudAdapter) -> Feature {
    Feature(
      routes: {
        nextcloud.proxy.addRoutes(to: $0)
        nextcloud.server.addRoutes(to: $0)
      },
      gauges: { metrics in
        metrics.gauges("push_bouncer_nextcloud_devices") {
          try await nextcloud.devices.counts().map {
            .init(Double($0.devices), labels: [("app", $0.app), ("kind", "\($0.kind)")])
          }
        }
        metrics.gauges("push_bouncer_nextcloud_devices_failing") {
          try await nextcloud.devices.counts().flatMap { count in
            count.failures.map { reason, number in
              .init(
                Double(number), labels: [("app", count.app), ("kind", "\(count.kind)"), ("reason", reason)])
            }
          }
        }
        metrics.gauge("push_bouncer_nextcloud_registrations") {
          Double(try await nextcloud.registrations.count())
        }
        metrics.gauge("push_bouncer_nextcloud_pushes_pending") {
          Double(try await nextcloud.pushes.queue.count())
        }
      },
      close: { await nextcloud.client.shutdown() },
      work: [{ await nextcloud.sender.run() }],
      queues: [nextcloud.pushes.queue.bringForward])
  }
}

extension NextcloudAdapter {
  /// The push proxy's devices by app, for the operator's pages.
  @Sendable func apps() async throws -> [Dashboard.App] {
    try await devices.counts().map { count in
      Dashboard.App(
        name: count.app, kind: "\(count.kind)", devices: count.devices,
        failing: count.failures.values.reduce(0, +))
    }
  }
}

extension HTTPClient.Configuration {
  /// The HTTP client settings for outgoing calls, with the same trust roots and the same HTTP proxy as
  /// pushes.
  ///
  /// - Parameter roots: additional trust roots.
  package static func outgoing(
    _ providers: ProvidersSettings, trusting roots: [NIOSSLCertificate] = []
  ) -> Self {
    var settings = HTTPClient.Configuration()
    var tls = TLSConfiguration.outgoing(caFile: providers.caFile)
    if !roots.isEmpty { tls.additionalTrustRoots.append(.certificates(roots)) }
    settings.tlsConfiguration = tls
    settings.guardConnections()
    if let proxy = providers.proxy, let host = proxy.host() {
      let user = proxy.user().map {
        HTTPClient.Authorization.basic(username: $0, password: proxy.password() ?? "")
      }
      settings.proxy = .server(host: host, port: proxy.port ?? 80, authorization: user)
    }
    return settings
  }
}
