import Delivery
import Foundation
import HTTP
import Logging
import Migrations
import Operations
import Providers
import Registrations
import SQL
import ZulipBouncer

/// What all features of the service share. It is made once.
struct Core {
  let configuration: Configuration
  let time: ServiceTime
  let keyFolder: KeyFolder
  /// The public listener's, if it speaks TLS.
  let certificate: ServerCertificate?
  let store: Store
  let clockRecord: ClockRecord
  let providers: PushProviders
  let outbox: Outbox
  let history: History
  let deliverer: Deliverer
  let bouncerKeys: BouncerKeys
  let requestTimes: RequestTimes
  let publicPort = Port()
  let logger: Logger

  var now: @Sendable () -> Date { time.now }
  var mayExpire: @Sendable () -> Bool { time.mayExpire }

  static func open(
    _ configuration: Configuration, time: ServiceTime, descriptors: DescriptorLimit, logger: Logger
  ) async throws -> Core {
    let (now, mayExpire) = (time.now, time.mayExpire)
    let keyFolder = KeyFolder(
      directory: configuration.keys.directory, defaultProject: configuration.fcm.defaultProject,
      logger: logger)
    let keys = keyFolder.load()
    keys.report(configuration, to: logger)
    let certificate = try configuration.http.tls.map { try ServerCertificate($0, logger: logger) }
    let store = try await Store.open(
      configuration, making: true, now: now, mayExpire: mayExpire, observer: DatabaseMetrics().observe,
      logger: logger)
    logger.notice(
      "database opened",
      metadata: [
        "url": "\(configuration.database.url)", "schema": .stringConvertible(Schema.version),
      ])
    let record = ClockRecord(database: store.database)
    // First, because everything else asks the clock whether something may expire.
    try await ClockWatch(time, record: record, queues: [], logger: logger).hear()
    let providers = try PushProviders(
      configuration: try await .init(configuration, store: store, descriptors: descriptors))
    providers.use(keys.credentials)
    let outbox = Outbox(
      database: store.database, storageKey: store.storageKey,
      maxAge: TimeInterval(configuration.delivery.maxAge.components.seconds),
      longestPause: configuration.longestPause, now: now, mayExpire: mayExpire)
    let history = History(database: store.database, now: now)
    let deliverer = Deliverer(
      providers: providers, registrations: store.recorder, outbox: outbox,
      deadline: configuration.delivery.deadline, history: history, now: now, logger: logger)
    return Core(
      configuration: configuration, time: time, keyFolder: keyFolder, certificate: certificate, store: store,
      clockRecord: record, providers: providers, outbox: outbox, history: history, deliverer: deliverer,
      bouncerKeys: BouncerKeys(database: store.database, now: now),
      requestTimes: RequestTimes(database: store.database, now: now),
      logger: logger)
  }

  /// The push services that strangers have named; nil where Web Push is off.
  @Sendable func pushServices() -> PushServices? {
    guard providers.vapidPublicKey != nil else { return nil }
    return PushServices(
      providers, outbox, held: deliverer.held, own: Set(configuration.webPush.privateHosts), now: now())
  }

  func readiness() -> Readiness {
    Readiness(
      database: store.database, keyFolder: keyFolder, outbox: outbox, now: now,
      routeStates: { [deliverer] in deliverer.routeStates() }, doubts: { [deliverer] in deliverer.doubts() },
      pushServices: pushServices, clockDoubt: { [time] in time.doubt }, certificate: certificate)
  }
}

extension KeyFolder.Snapshot {
  /// Tells what is missing for what is configured.
  fileprivate func report(_ configuration: Configuration, to logger: Logger) {
    let isDelivering = if case .remote = configuration.server.bouncer { false } else { true }
    for shortage in shortages(
      isDelivering: isDelivering || configuration.nextcloud.isEnabled,
      hasWebPush: configuration.webPush.isEnabled)
    {
      logger.log(
        level: shortage.isFault ? .warning : .notice, "\(shortage.problem)",
        metadata: ["advice": "\(shortage.advice)"])
    }
  }
}

extension Configuration {
  /// The longest that an entry of the outbox may have to wait, in seconds: providers may ask for an hour, and what a
  /// chat server sends beyond its limit is spread over several windows of that limit.
  var longestPause: TimeInterval {
    max(Outbox.longestPause, (NotificationPace.share + 3) * (bouncer.notificationsPerServer?.seconds ?? 0))
  }
}

extension Configuration.HTTP {
  /// The largest body of `server/analytics` and of the push proxy's `/notifications`.
  var largestBodyBytes: Int { max(maxBodyBytes, 16 << 20) }

  /// The address by which the outside reaches this service: the configured one, or where it listens.
  func publicAddress(listeningOn port: Port) -> @Sendable () -> String {
    let (publicURL, origin) = (publicURL, "\(tls == nil ? "http" : "https")://\(host)")
    return { [standard = self.port] in publicURL ?? "\(origin):\(port.number ?? standard)" }
  }
}

extension ZulipBouncerRoutes {
  /// - Parameter isBuiltIn: for the built-in chat-server side, whose users have limits of their own. It is called without
  ///   a wire, where the other limits are.
  init(_ core: Core, isBuiltIn: Bool = false, adjust: (inout Configuration) -> Void = { _ in }) {
    let store = core.store
    var settings = Configuration(core.configuration, port: core.publicPort)
    if isBuiltIn { settings.notificationsPerServer = nil }
    adjust(&settings)
    self.init(
      configuration: settings,
      dependencies: Dependencies(
        servers: store.servers, realms: store.realms,
        analytics: Analytics(database: store.database, storageKey: store.storageKey, now: core.now),
        registrations: store.registrations, legacy: store.legacy, bouncerKeys: core.bouncerKeys,
        requestTimes: core.requestTimes, deliverer: core.deliverer,
        keyring: { [folder = core.keyFolder] in folder.current.bouncer }, storageKey: store.storageKey,
        now: core.now, mayExpire: core.mayExpire, logger: core.logger))
  }
}

extension ZulipBouncerRoutes.Configuration {
  init(_ configuration: Configuration, port: Port) {
    let (http, bouncer) = (configuration.http, configuration.bouncer)
    self.init(publicURL: http.publicAddress(listeningOn: port))
    registration = bouncer.isOpen ? .open : .closed
    allowedHostnames = bouncer.allowedHostnames
    verifyHostnames = bouncer.verifyHostnames
    verifyCAFile = bouncer.verifyCAFile
    verifyAllowPrivateAddresses = bouncer.verifyAllowPrivateAddresses
    rateLimitPerServer = bouncer.rateLimitPerServer
    // Without a limit on calls there is none on these either.
    if rateLimitPerServer == nil { rateLimitOfRegistrations = nil }
    notificationsPerServer = bouncer.notificationsPerServer
    rateLimitPerAddress = http.rateLimitPerAddress
    maximumBodyBytes = http.maxBodyBytes
    maximumAnalyticsBytes = http.largestBodyBytes
    operatorEmail = configuration.operator.email
  }
}

extension PushProviders.Configuration {
  /// Where the providers are, and with Web Push the key pair that its subscriptions are bound to, which is made the
  /// first time.
  init(_ configuration: Configuration, store: Store, descriptors: DescriptorLimit) async throws {
    self.init(configuration)
    guard configuration.webPush.isEnabled else { return }
    let keys = VAPIDKeys(database: store.database, storageKey: store.storageKey, now: store.now)
    webPush = WebPush(
      key: try await keys.key(), contact: configuration.webPushContact ?? Configuration.WebPush.nobody,
      privateHosts: Set(configuration.webPush.privateHosts),
      connections: descriptors.pushServiceConnections)
  }
}
