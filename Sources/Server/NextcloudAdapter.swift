package import AsyncHTTPClient
import Delivery
import Foundation
import HTTP
import HTTPTypes
import Hummingbird
import Logging
package import NIOSSL
import NextcloudProxy
import NextcloudServer
package import Operations
import Providers
import Registrations
import Sealing

/// The Nextcloud adapter with everything it needs: the push proxy, and the server side with its sender.
struct NextcloudAdapter {
  fileprivate let proxy: NextcloudProxyRoutes
  fileprivate let server: NextcloudServerRoutes
  fileprivate let lossDetector: StoreLossDetector
  fileprivate let client: OutgoingClient
  let sender: NextcloudSender
  /// The subscriptions to Web Push of the server side's users.
  let webPush: NextcloudWebPush
  /// The phones of the server side's users.
  let registrations: NextcloudRegistrations
  /// Pushes that no proxy has taken yet.
  let pushes: NextcloudPushes
  let devices: NextcloudDevices

  static func build(_ core: Core) throws -> NextcloudAdapter {
    let (configuration, store, logger) = (core.configuration, core.store, core.logger)
    let settings = configuration.nextcloud
    let (apps, devices) = (try apps(settings), store.nextcloudDevices)
    // As it is once the service listens.
    let publicURL = configuration.http.publicAddress(listeningOn: core.publicPort)
    let lossDetector = StoreLossDetector(
      file: URL(fileURLWithPath: configuration.keys.directory).appending(path: "nextcloud-store.json"),
      devices: devices, now: store.now, mayExpire: store.mayExpire, logger: logger)
    let proxy = NextcloudProxyRoutes(
      configuration: .init(configuration, apps: apps),
      dependencies: .init(
        devices: devices, recorder: store.recorder, deliverer: core.deliverer, lossDetector: lossDetector,
        now: store.now, mayExpire: store.mayExpire, logger: logger))
    let roots =
      try settings.proxiesCAFile.map {
        try PEMFile($0, key: "nextcloud.proxies_ca_file").certificates()
      } ?? []
    let client = OutgoingClient(configuration: .outgoing(configuration.providers, trusting: roots)) {
      IPAddress($0)?.isPublic == true
    }
    let keys = NextcloudKeys(database: store.database, storageKey: store.storageKey, now: store.now)
    let registrations = NextcloudRegistrations(database: store.database, now: store.now)
    let pushes = NextcloudPushes(database: store.database, now: store.now, mayExpire: store.mayExpire)
    let webPush = NextcloudWebPush(
      subscriptions: NextcloudSubscriptions(
        database: store.database, storageKey: store.storageKey, now: store.now),
      vapidKey: core.providers.vapidPublicKey, isEnabled: settings.webPush,
      allowsBrowsers: settings.webPushBrowsers, accepts: core.providers.accepts, deliverer: core.deliverer)
    let (setProxy, setAddress) = (settings.defaultProxy, configuration.nextcloudAddress)
    let defaultProxy: @Sendable () -> String = { setProxy ?? publicURL() }
    let sender = NextcloudSender(
      configuration: .init(
        padding: settings.padding, defaultProxy: defaultProxy,
        allowsLocalProxies: settings.allowsLocalProxies, subscriptionServer: settings.subscriptionServer,
        subscriptionKey: settings.subscriptionKey, deadline: configuration.delivery.deadline,
        maximumAge: configuration.delivery.maxAge / .seconds(1)),
      dependencies: .init(
        keys: keys, registrations: registrations, notifications: store.nextcloudNotifications,
        pushes: pushes, webPush: webPush, client: client, ownProxy: .init(proxy, address: publicURL),
        now: store.now),
      logger: logger)
    let server = NextcloudServerRoutes(
      configuration: .init(
        name: configuration.server.name, url: configuration.nextcloudURL,
        address: { setAddress ?? publicURL() }, defaultProxy: defaultProxy,
        allowsLocalProxies: settings.allowsLocalProxies,
        rateLimitPerUser: configuration.server.rateLimitPerUser,
        rateLimitPerAddress: configuration.http.rateLimitPerAddress,
        maximumBodyBytes: configuration.http.maxBodyBytes),
      dependencies: .init(
        accounts: store.accounts, loginFlows: store.nextcloudLoginFlows, keys: keys,
        registrations: registrations, notifications: store.nextcloudNotifications, sender: sender,
        webPush: webPush, brand: { apps.ownKind(of: $0).map(NextcloudRegistration.AppKind.init) },
        now: store.now))
    return NextcloudAdapter(
      proxy: proxy, server: server, lossDetector: lossDetector, client: client, sender: sender,
      webPush: webPush, registrations: registrations, pushes: pushes, devices: devices)
  }

  /// The operator's own builds and brands with the built-in apps.
  static func apps(_ settings: Configuration.Nextcloud) throws(Fault) -> NextcloudApps {
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
        metrics.gauge("push_bouncer_nextcloud_pushes_pending") { Double(try await nextcloud.pushes.count()) }
      },
      close: { await nextcloud.client.shutdown() },
      work: [{ await nextcloud.lossDetector.run() }, { await nextcloud.sender.run() }],
      queues: [nextcloud.pushes.bringForward])
  }
}

extension NextcloudSender.OwnProxy {
  /// This program's own. Its answers mean the same as over the wire.
  fileprivate init(_ proxy: NextcloudProxyRoutes, address: @escaping @Sendable () -> String) {
    self.init(address: address) { entries in
      do throws(ProxyError) {
        let receipt = try await proxy.notify(entries)
        return .taken(
          status: HTTPResponse.Status.ok.code, unknown: Set(receipt.unknown), failed: receipt.failed)
      } catch {
        return ProxyAnswer(refusal: error.status.code)
      }
    }
  }
}

extension NextcloudProxyRoutes.Configuration {
  fileprivate init(_ configuration: Configuration, apps: NextcloudApps) {
    self.init()
    self.apps = apps
    rateLimitPerAddress = configuration.nextcloud.rateLimitPerAddress
    newDevicesPerAddress = configuration.nextcloud.newDevicesPerAddress
    maximumBodyBytes = configuration.http.maxBodyBytes
    maximumNotificationsBytes = max(configuration.http.maxBodyBytes, 16 << 20)
    deadline = configuration.nextcloud.deadline
  }
}

extension NextcloudRegistration.AppKind {
  fileprivate init(_ kind: NextcloudApp.Kind) {
    self =
      switch kind {
      case .talk: .talk
      case .files: .files
      case .other: .unknown
      }
  }
}

extension NextcloudAdapter {
  /// The proxy's devices by app, for the operator.
  @Sendable func apps() async throws -> [Dashboard.App] {
    try await devices.counts().map { count in
      Dashboard.App(
        name: count.app, kind: "\(count.kind)", devices: count.devices,
        failing: count.failures.values.reduce(0, +))
    }
  }
}

extension HTTPClient.Configuration {
  /// For calls to the outside, under the same trust and through the same proxy as pushes.
  ///
  /// - Parameter roots: more trust roots.
  package static func outgoing(
    _ providers: Configuration.Providers, trusting roots: [NIOSSLCertificate] = []
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
