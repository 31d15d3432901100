import Basics
import Delivery
import Foundation
import HTTP
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import NextcloudProxy
import NextcloudServer
import Operator
import Platform
import Providers
import Registrations
import SQL
import Sealing
import Server
import WebPushGateway
import ZulipBouncer

/// One run of the service's process. After its end it can no longer change anything in the world.
///
/// Unchecked: the world has one thread.
final class Life: @unchecked Sendable {
  let node: String
  /// Which run of any node it is.
  let number: Int
  var isAlive = true
  /// Whether the node is cut off from the database.
  var isCut = false
  /// The error of the node's clock, in seconds.
  var skew: TimeInterval = 0
  /// When its clock last jumped by more than a minute.
  var jumpedAt: Double?
  /// The error of the time that the service uses, in seconds. It differs from `skew` while the service
  /// distrusts its clock.
  var ahead: () -> TimeInterval = { 0 }
  /// The times at which a failure kept the node from writing to the database.
  var disturbances: [Double] = []
  var calls: [Int: (Answer?) -> Void] = [:]
  /// What its key folder held when it was last read, and when that was.
  var credentials = Credentials()
  var credentialsSince: Double?

  init(node: String, number: Int) { (self.node, self.number) = (node, number) }
}

/// An answer as a caller receives it. There is none if the connection broke or the call timed out.
struct Answer: Sendable {
  let status: Int
  let text: String
  var headers = HTTPFields()
  var body: [UInt8] = []
  var json: JSON { (try? JSON.parse(text)) ?? .null }
}

/// The service's parts, put together as `serve` does it, between a database and providers that the world plays.
///
/// Unchecked: the world has one thread.
final class Node: @unchecked Sendable {
  /// Nothing that a page of the database has by chance, as its unused places keep old numbers.
  static let storageKey = (1...32).map { UInt8($0 * 7) }
  static let keyPair = BouncerKeyPair()
  static let answerTimeout = Duration.seconds(60)

  let name: String
  unowned let world: World
  private(set) var life: Life
  private var running: Task<Void, Never>?
  private var responder: RoutesResponder?
  private var logger: Logger
  private(set) var deliverer: Deliverer?
  private var providers: PushProviders?

  init(_ name: String, world: World) {
    (self.name, self.world) = (name, world)
    life = Life(node: name, number: 0)
    life.isAlive = false
    logger = Logger(label: name)
  }

  var isAlive: Bool { life.isAlive }

  /// Starts the process.
  func start() throws {
    guard !life.isAlive, let settings = World.settings else { return }
    let old = life
    world.lives += 1
    life = Life(node: name, number: world.lives)
    (life.skew, life.isCut) = (old.skew, old.isCut)
    let life = life
    logger = Logger(label: name) { [world] _ in NodeLog(world: world, life: life) }
    let time = ServiceTime(wall: { Date() + life.skew })
    let trustsAnyClock = world.standIn.trustsAnyClock
    let (now, isClockTrusted): (@Sendable () -> Date, @Sendable () -> Bool) = (
      time.now, { trustsAnyClock || time.isClockTrusted() }
    )
    life.ahead = { now().timeIntervalSince(Date()) }
    let plain = NodeDatabase(world.server, world: world, life: life)
    let database = RetryingDatabase(plain)
    let storageKey = StorageKey(bytes: Self.storageKey)
    let links = world.upstream.map { _ in
      UpstreamLinks(database: database, storageKey: storageKey, now: now)
    }
    var configuration = PushProviders.Configuration(settings)
    configuration.upstream = links?.provider(at: settings.upstream.url)
    if world.plan.tenants != nil {
      configuration.webPush = .init(
        key: PushService.vapid, contact: "mailto:admin@example.org", privateHosts: [PushService.host])
    }
    let providers = try PushProviders(
      configuration: configuration, over: NodeNetwork(world: world, life: life), now: now)
    self.providers = providers
    use(world.credentials)
    let registrations = RegistrationStore(
      database: database, storageKey: storageKey, now: now, isClockTrusted: isClockTrusted)
    let room = RegistrationRoom(
      .init(ofServer: 1_000_000, devices: 1_000_000, subscriptions: 1_000_000), database: database, now: now,
      logger: logger)
    let outbox = Outbox(
      database: database, storageKey: storageKey, maxAge: World.maximumAge, now: now,
      isClockTrusted: isClockTrusted)
    let upstream = providers.upstream.flatMap { sender in
      links.map { ZulipBouncer.UpstreamBouncer(sender, links: $0, now: now, logger: logger) }
    }
    let deliverer = Deliverer(
      providers: providers, registrations: registrations, outbox: outbox, deadline: .seconds(5),
      relay: upstream, now: now, logger: logger)
    self.deliverer = deliverer
    let sender = OutboxSender(outbox: outbox, deliverer: deliverer, now: now, logger: logger)
    let bouncer = Bouncer(
      settings.bouncer, http: settings.http, delivery: settings.delivery, operatorEmail: nil,
      publicURL: { "https://push.example.org" }, registrations: registrations, room: room,
      requestTimes: RequestTimes(database: database, now: now), deliverer: deliverer,
      keyring: { BouncerKeyring([.init(pair: Self.keyPair, state: .active)]) }, upstream: upstream)
    let routes = ZulipBouncerRoutes(bouncer)
    let bodies = BodyBudget(limit: 64 << 20, largest: 1 << 20)
    let lossDetector =
      world.hasStoreRecords
      ? StoreLossDetector(
        file: storeRecord, database: database, now: now, isClockTrusted: isClockTrusted, logger: logger)
      : nil
    let proxy =
      world.hasPushProxy
      ? lossDetector.map {
        nextcloudProxy(
          settings, database: database, storageKey: storageKey, recorder: registrations, room: room,
          deliverer: deliverer, lossDetector: $0, now: now, logger: logger)
      } : nil
    let gateway =
      world.gateway == nil
      ? nil
      : lossDetector.map {
        self.gateway(
          settings, database: database, storageKey: storageKey, room: room, deliverer: deliverer,
          lossDetector: $0, now: now, logger: logger)
      }
    let nextcloudServer =
      world.nextcloudChat == nil
      ? nil
      : proxy.map {
        self.nextcloudServer(
          settings, proxy: $0, database: database, storageKey: storageKey, deliverer: deliverer,
          now: now, isClockTrusted: isClockTrusted, logger: logger)
      }
    let chat =
      world.chat == nil && nextcloudServer == nil
      ? nil
      : chatSide(
        settings, nextcloudServer?.sender, database: database, storageKey: storageKey, now: now,
        isClockTrusted: isClockTrusted, logger: logger)
    responder =
      Endpoints.forPublic(
        trustedProxies: [ClientAddress.Network("127.0.0.1")].compactMap(\.self),
        forwarding: ForwardingFaults(), bodies: bodies
      ) {
        routes.addRoutes(to: $0)
        if let proxy { NextcloudProxyRoutes(proxy).addRoutes(to: $0) }
        if let gateway { GatewayRoutes(gateway).addRoutes(to: $0) }
        nextcloudServer?.routes.addRoutes(to: $0)
        chat?.addRoutes($0)
      }.responder
    let clock = ClockWatch(
      time, record: ClockRecord(database: database),
      queues: [outbox.queue.bringForward] + (chat.map { [$0.bringForward] } ?? [])
        + (nextcloudServer.map { [$0.sender.pushes.queue.bringForward] } ?? [])
        + (links.map { [$0.reports.bringForward, $0.unregistrations.bringForward] } ?? []), logger: logger)
    let housekeeping = Housekeeping(
      settings, registrations: registrations,
      removals: [.init { try await outbox.removeUnusedRoutes(limit: $0) }]
        + (gateway.map { settings.gateway.cleanup($0).removals } ?? []), logger: logger)
    running = Task {
      try? await clock.compareWithDatabase()
      await withTaskGroup { group in
        group.addTask { await clock.run() }
        group.addTask { await sender.run() }
        group.addTask { await deliverer.followHeldDeletions() }
        group.addTask { await housekeeping.run() }
        group.addTask { await lossDetector?.run() }
        group.addTask { await chat?.run() }
        if let nextcloudServer { group.addTask { await nextcloudServer.sender.run() } }
        if let upstream = bouncer.upstream { group.addTask { await upstream.run() } }
      }
      await providers.shutdown(within: .zero)
    }
  }

  /// Reads its key folder.
  func use(_ credentials: Credentials) {
    guard life.isAlive else { return }
    if life.credentialsSince == nil || !world.standIn.keepsCredentials { providers?.use(credentials) }
    let changed =
      Set(life.credentials.apns).symmetricDifference(credentials.apns).map { "apns:\($0.name)" }
      + Set(life.credentials.fcm).symmetricDifference(credentials.fcm).map { "fcm:\($0.name)" }
    world.answersHeard.forget(by: life, over: changed)
    (life.credentials, life.credentialsSince) = (credentials, world.time)
  }

  /// Ends it as `kill -9` does.
  func kill() {
    guard life.isAlive else { return }
    world.putOffUntil = max(world.putOffUntil, world.latestTime, world.time + life.ahead())
    life.isAlive = false
    life.disturbances.append(world.time)
    world.ledger.killedAt = world.time
    world.standIn.killed(world)
    running?.cancel()
    (running, responder, deliverer, providers) = (nil, nil, nil, nil)
    let calls = life.calls
    life.calls = [:]
    for id in calls.keys.sorted() { calls[id]?(nil) }
  }

  /// Calls it as a chat server does, which waits for 15 seconds; nil where no answer came.
  func call(
    _ path: String, method: HTTPRequest.Method = .post, headers: HTTPFields, body: [UInt8]
  ) async -> Answer? {
    guard life.isAlive, let responder else { return nil }
    let request = Request(
      head: HTTPRequest(
        method: method, scheme: "https", authority: "push.example.org", path: path, headerFields: headers),
      body: RequestBody(buffer: ByteBuffer(bytes: body)))
    let (life, logger) = (life, logger)
    world.calls += 1
    let id = world.calls
    return await withCheckedContinuation { continuation in
      life.calls[id] = { continuation.resume(returning: $0) }
      Task {
        let collected = Collected()
        let response = try? await responder.respond(to: request, context: WireContext(inProcess: logger))
        if let response { try? await response.body.write(Collector(collected: collected)) }
        guard life.isAlive else { return }
        let answer = response.map {
          Answer(
            status: Int($0.status.code), text: String(buffer: collected.buffer), headers: $0.headers,
            body: Array(buffer: collected.buffer))
        }
        life.calls.removeValue(forKey: id)?(answer)
      }
      Task {
        try? await Task.sleep(for: .seconds(15))
        life.calls.removeValue(forKey: id)?(nil)
      }
    }
  }

  /// Unchecked: the world has one thread.
  private final class Collected: @unchecked Sendable { var buffer = ByteBuffer() }

  private struct Collector: ResponseBodyWriter {
    let collected: Collected
    mutating func write(_ buffer: ByteBuffer) async throws {
      var buffer = buffer
      collected.buffer.writeBuffer(&buffer)
    }
    consuming func finish(_ trailingHeaders: HTTPFields?) async throws {}
  }
}
