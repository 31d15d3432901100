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
  private let proxy: NextcloudProxyRoutes
  private let server: NextcloudServerRoutes
  private let lossDetector: StoreLossDetector
  private let client: OutgoingClient
  let sender: NextcloudSender
  /// The subscriptions to Web Push of the server side's users.
  let webPush: NextcloudWebPush
  /// The phones of the server side's users.
  let registrations: NextcloudRegistrations
  /// Pushes that no proxy has taken yet.
  let pushes: NextcloudPushes
  /// The proxy's devices.
  let devices: NextcloudDevices

  /// - Parameter publicURL: this service's own address, as it is once it listens.
  static func build(
    _ configuration: Configuration, store: Store, providers: PushProviders, deliverer: Deliverer,
    publicURL: @escaping @Sendable () -> String, logger: Logger
  ) throws -> NextcloudAdapter {
    let settings = configuration.nextcloud
    let apps = try apps(settings)
    let devices = store.nextcloudDevices
    let lossDetector = StoreLossDetector(
      file: URL(fileURLWithPath: configuration.keys.directory).appending(path: "nextcloud-store.json"),
      devices: devices, now: store.now, mayExpire: store.mayExpire, logger: logger)
    let proxy = NextcloudProxyRoutes(
      configuration: .init(configuration, apps: apps),
      dependencies: .init(
        devices: devices, recorder: store.recorder, deliverer: deliverer, lossDetector: lossDetector,
        now: store.now,
        mayExpire: store.mayExpire, logger: logger))
    let client = OutgoingClient(
      configuration: .outgoing(configuration.providers, trusting: try roots(settings.proxiesCAFile))
    ) {
      IPAddress($0)?.isPublic == true
    }
    let keys = NextcloudKeys(database: store.database, storageKey: store.storageKey, now: store.now)
    let registrations = NextcloudRegistrations(database: store.database, now: store.now)
    let pushes = NextcloudPushes(
      database: store.database, now: store.now, mayExpire: store.mayExpire)
    let webPush = NextcloudWebPush(
      subscriptions: NextcloudSubscriptions(
        database: store.database, storageKey: store.storageKey, now: store.now),
      vapidKey: providers.vapidPublicKey, isEnabled: settings.webPush,
      allowsBrowsers: settings.webPushBrowsers, accepts: providers.accepts, deliverer: deliverer)
    let defaultProxy: @Sendable () -> String = { settings.defaultProxy ?? publicURL() }
    let sender = NextcloudSender(
      configuration: .init(
        padding: settings.padding == .OAEP ? .oaep : .pkcs1, defaultProxy: defaultProxy,
        allowsLocalProxies: settings.allowsLocalProxies, subscriptionServer: settings.subscriptionServer,
        subscriptionKey: settings.subscriptionKey, deadline: configuration.delivery.deadline,
        maximumAge: TimeInterval(configuration.delivery.maxAge.components.seconds)),
      dependencies: .init(
        keys: keys, registrations: registrations,
        notifications: store.nextcloudNotifications, pushes: pushes, webPush: webPush,
        client: client,
        ownProxy: .init(proxy, address: publicURL), now: store.now),
      logger: logger)
    let server = NextcloudServerRoutes(
      configuration: .init(
        name: configuration.server.name, url: settings.url, address: { settings.address ?? publicURL() },
        defaultProxy: defaultProxy, allowsLocalProxies: settings.allowsLocalProxies,
        rateLimitPerUser: configuration.server.rateLimitPerUser,
        rateLimitPerAddress: configuration.http.rateLimitPerAddress,
        maximumBodyBytes: configuration.http.maxBodyBytes),
      dependencies: .init(
        accounts: store.accounts, loginFlows: store.nextcloudLoginFlows, keys: keys,
        registrations: registrations,
        notifications: store.nextcloudNotifications, sender: sender, webPush: webPush,
        brand: { apps.ownKind(of: $0).map(NextcloudRegistration.AppKind.init) }, now: store.now))
    return NextcloudAdapter(
      proxy: proxy, server: server, lossDetector: lossDetector, client: client, sender: sender,
      webPush: webPush, registrations: registrations, pushes: pushes, devices: devices)
  }

  func addRoutes(to router: Router<WireContext>) {
    proxy.addRoutes(to: router)
    server.addRoutes(to: router)
  }

  /// Works in the background until its task is cancelled.
  func run() async {
    await withTaskGroup { group in
      group.addTask { await lossDetector.run() }
      group.addTask { await sender.run() }
    }
  }

  func close() async { await client.shutdown() }

  static func roots(_ file: String?) throws(Fault) -> [NIOSSLCertificate] {
    guard let file else { return [] }
    return try PEMFile(file, key: "nextcloud.proxies_ca_file").certificates()
  }

  static func apps(_ settings: Configuration.Nextcloud) throws(Fault) -> NextcloudApps {
    let own = try ownApps(settings.appsFile)
    do {
      return try NextcloudApps(own: own, default: settings.defaultApp)
    } catch {
      throw Fault(key: "nextcloud.default_app", error.description, advice: "name one of them, or none")
    }
  }

  private static func ownApps(_ file: String?) throws(Fault) -> [NextcloudApp] {
    guard let file else { return [] }
    let key = "nextcloud.apps_file"
    if let fault = Fault(unreadable: file, key: key) { throw fault }
    guard let bytes = FileManager.default.contents(atPath: file) else {
      throw Fault(key: key, "names \(file), which cannot be read", advice: "look at the file")
    }
    do {
      return try NextcloudApp.read(Array(bytes))
    } catch {
      throw Fault(
        key: key, "names \(file): \(error.description)",
        advice: "correct it; Documentation/GettingStarted/NextcloudBrand.md shows one")
    }
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
