import Basics
import Delivery
import Foundation
import HTTP
import Logging
import Migrations
import NextcloudProxy
import Operator
import Platform
import Providers
import Registrations
import SQL
import Sealing
import WebPushGateway
import ZulipBouncer
import ZulipServer

/// What all features of the service share, created once.
struct Core {
  let configuration: Configuration
  let time: ServiceTime
  let keyFolder: KeyFolder
  /// The public listener's certificate; nil if it does not speak TLS.
  let certificate: ServerCertificate?
  let store: Store
  let room: RegistrationRoom
  let clockRecord: ClockRecord
  let lossDetector: StoreLossDetector
  let providers: PushProviders
  let outbox: Outbox
  let history: History
  /// Nil where there is none.
  let upstream: UpstreamBouncer?
  let deliverer: Deliverer
  let requestTimes: RequestTimes
  let publicPort = Port()
  let logger: Logger

  var now: @Sendable () -> Date { time.now }
  var isClockTrusted: @Sendable () -> Bool { time.isClockTrusted }

  static func open(
    _ configuration: Configuration, time: ServiceTime, descriptors: DescriptorLimit,
    migrations: (DatabaseEngine) -> [Migration], logger: Logger
  ) async throws -> Core {
    let now = time.now
    let isClockTrusted = time.isClockTrusted
    let keyFolder = KeyFolder(
      directory: configuration.keys.directory, defaultProject: configuration.fcm.defaultProject,
      logger: logger)
    let keys = keyFolder.load()
    keys.report(configuration, to: logger)
    let certificate = try configuration.http.tls.map { try ServerCertificate($0, now: now, logger: logger) }
    let store = try await Store.open(
      configuration, migrations: migrations, making: true, now: now, isClockTrusted: isClockTrusted,
      observer: DatabaseMetrics().observe,
      logger: logger)
    let schema = try await Migrator.version(of: store.database)
    logger.notice(
      "database opened",
      metadata: [
        "url": "\(configuration.database.url)", "schema": .stringConvertible(schema),
      ])
    let record = ClockRecord(database: store.database)
    // The clock is checked first, because everything else depends on whether something may expire.
    try await ClockWatch(time, record: record, queues: [], logger: logger).compareWithDatabase()
    let providers = try PushProviders(
      configuration: try await .init(configuration, store: store, descriptors: descriptors))
    providers.use(keys.credentials)
    let outbox = Outbox(
      database: store.database, storageKey: store.storageKey,
      maxAge: TimeInterval(configuration.delivery.maxAge.components.seconds),
      longestPause: configuration.longestPause, now: now, isClockTrusted: isClockTrusted)
    let history = History(database: store.database, now: now)
    let upstream = providers.upstream.map {
      UpstreamBouncer($0, links: store.upstreamLinks, now: now, logger: logger)
    }
    let deliverer = Deliverer(
      providers: providers, registrations: store.registrations, outbox: outbox,
      deadline: configuration.delivery.deadline, history: history, relay: upstream,
      work: configuration.http.maxBytesInFlight, now: now, logger: logger)
    return Core(
      configuration: configuration, time: time, keyFolder: keyFolder, certificate: certificate, store: store,
      room: RegistrationRoom(
        .init(
          ofServer: configuration.bouncer.maxRegistrationsPerServer,
          devices: configuration.nextcloudProxy.maxDevices,
          subscriptions: configuration.gateway.maxSubscriptions),
        database: store.database, now: now, logger: logger),
      clockRecord: record,
      lossDetector: StoreLossDetector(
        file: StoreRecord.file(in: configuration.keys.directory),
        database: store.database, now: now, machineTime: { Date() }, isClockTrusted: isClockTrusted,
        logger: logger),
      providers: providers, outbox: outbox, history: history, upstream: upstream, deliverer: deliverer,
      requestTimes: RequestTimes(database: store.database, now: now),
      logger: logger)
  }

  /// The health of Web Push; nil if it is off.
  @Sendable func pushServices() -> PushServices? {
    guard providers.vapidPublicKey != nil else { return nil }
    return PushServices(
      providers, outbox, held: deliverer.held, own: Set(configuration.webPush.privateHosts), now: now())
  }

  func readiness(_ forwarding: ForwardingFaults) -> Readiness {
    Readiness(
      database: store.database, keyFolder: keyFolder, outbox: outbox, now: now,
      routeStates: { [deliverer] in deliverer.routeStates() }, doubts: { [deliverer] in deliverer.doubts() },
      unserved: { [deliverer] in deliverer.unserved() },
      pushServices: pushServices, clockDoubt: { [time] in time.doubt }, certificate: certificate,
      isDelivering: configuration.isDelivering,
      earlier: { [lossDetector] in lossDetector.earlier },
      unopened: { [key = store.storageKey] in key.failures },
      unreadableForwarding: { forwarding.unreadable }, logBacklog: { LogWriter.standardError.backlog() })
  }
}

extension KeyFolder.Snapshot {
  /// Logs what is missing for the configured features.
  fileprivate func report(_ configuration: Configuration, to logger: Logger) {
    for shortage in shortages(
      isDelivering: configuration.isDelivering,
      hasWebPush: configuration.webPush.isEnabled)
    {
      logger.log(
        level: shortage.isFault ? .warning : .notice, "\(shortage.problem)",
        metadata: ["advice": .stringConvertible(shortage.advice)])
    }
  }
}

extension Configuration {
  /// The longest time that an outbox entry may have to wait, in seconds. Providers may ask for an hour, and
  /// notifications beyond a chat server's rate limit are spread over several of the limit's windows.
  var longestPause: TimeInterval {
    max(Outbox.longestPause, (NotificationPace.share + 3) * (bouncer.notificationsPerServer?.seconds ?? 0))
  }
}

extension HTTPSettings {
  /// This service's public address: the configured one, or else the listener's.
  func publicAddress(listeningOn port: Port) -> @Sendable () -> String {
    let origin = "\(tls == nil ? "http" : "https")://\(host)"
    return { [publicURL, standard = self.port] in publicURL ?? "\(origin):\(port.number ?? standard)" }
  }
}

extension Bouncer {
  init(_ core: Core) {
    self.init(
      core.configuration.bouncer, http: core.configuration.http, delivery: core.configuration.delivery,
      operatorEmail: core.configuration.operator.email,
      publicURL: core.configuration.http.publicAddress(listeningOn: core.publicPort),
      registrations: core.store.registrations, room: core.room, requestTimes: core.requestTimes,
      deliverer: core.deliverer,
      keyring: { [folder = core.keyFolder] in folder.current.bouncer },
      upstream: core.upstream, lossDetector: core.lossDetector)
  }
}

extension WebPushGateway {
  convenience init(_ core: Core) {
    self.init(
      core.configuration.gateway, http: core.configuration.http,
      publicURL: core.configuration.http.publicAddress(listeningOn: core.publicPort),
      database: core.store.database, storageKey: core.store.storageKey, room: core.room,
      keyring: { [folder = core.keyFolder] in folder.current.bouncer }, deliverer: core.deliverer,
      lossDetector: core.lossDetector, now: core.now, logger: core.logger)
  }
}

extension PushProviders.Configuration {
  /// The providers' addresses and, if Web Push is on, its key pair, which is created at first use. Web Push
  /// subscriptions are bound to that key pair.
  init(_ configuration: Configuration, store: Store, descriptors: DescriptorLimit) async throws {
    self.init(configuration)
    upstream = store.upstreamLinks.provider(at: configuration.upstream.url)
    guard configuration.webPush.isEnabled else { return }
    let keys = VAPIDKeys(database: store.database, storageKey: store.storageKey, now: store.now)
    webPush = WebPush(
      key: try await keys.key(), contact: configuration.webPushContact ?? WebPushSettings.nobody,
      privateHosts: Set(configuration.webPush.privateHosts),
      connections: descriptors.pushServiceConnections)
  }
}
