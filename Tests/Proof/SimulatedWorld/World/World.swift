import CVirtualTime
import Foundation
import NIOCore
import NIOEmbedded
import Providers
import SQL
import Sealing

/// A promise of the service that was not kept.
struct Violation: Error, Sendable, Hashable {
  /// Which promise, in a word or two.
  let promise: String
  let text: String
}

/// Phones, chat servers, providers, nodes and a database, in virtual time.
///
/// Unchecked: the world has one thread.
final class World: @unchecked Sendable {
  static let epoch = 1_790_000_000.0
  /// Part of every token. It must not be found in clear in the database or the log.
  static let secret = "5ec2e75ec2e7"
  static let secretSpellings = Spelling.allCases.map { $0.of(secret) }
  /// Precedes every text that only phones may decrypt. It must not be found in clear either.
  static let plaintext = "PLAINTEXT-"
  static let topic = "org.example.chat"
  /// The store's app's.
  static let secondTopic = "org.example.work"
  static let maximumAge: TimeInterval = 3600

  let plan: Plan
  let standIn: StandIn
  let server: DatabaseServer
  let database: DatabaseWeather
  let eventLoop = EmbeddedEventLoop()
  private(set) var providers: [Route.Provider: Provider] = [:]
  private(set) var nodes: [Node] = []
  private(set) var servers: [ChatServer] = []
  private(set) var phones: [Phone] = []
  private(set) var nextcloud: NextcloudServer?
  private(set) var chat: Chat?
  private(set) var nextcloudChat: NextcloudChat?
  private(set) var gateway: Gateway?
  private(set) var strangers: [Stranger] = []
  private(set) var upstream: UpstreamBouncer?
  private(set) var tenancy: Tenancy?
  private(set) var impostor: Impostor?
  /// The phone of every token that was ever issued.
  var owners = TokenTable<Phone>()
  var pushService = PushService()
  var lives = 0
  var calls = 0
  /// Calls and notifications, for figures.
  var figures = Figures()
  private(set) var violation: Violation?
  /// The world's log; empty unless `isTalking`.
  private(set) var log: [String] = []
  private let isTalking: Bool
  var ledger = Ledger()
  var answersHeard = AnswersHeard()
  /// What the nodes sign in to providers with.
  var credentials = World.credentials
  /// Until when timers last fired late: how long a call took before then says nothing.
  var coarseUntil = 0.0
  private var messages = 0
  /// The latest time that a node's clock has shown, in seconds since the world began.
  var latestTime = 0.0
  /// The latest time to which a node may have postponed work, if it was killed while its clock was ahead or
  /// soon after.
  var putOffUntil = 0.0
  /// Whether the world has ended and only work under way is finished.
  private(set) var isOver = false
  /// How long the world lasted, in seconds.
  private(set) var duration = 0.0
  private let start: Int64
  /// What a stand-in remembers of queries.
  var remembered: [String: (rows: [Row], time: Double)] = [:]
  /// Seconds between two checks of everything.
  var checkInterval = 0.0
  private var nextCheck = 0.0

  struct Figures: Sendable {
    var calls = 0
    var promises = 0
    var arrivals = 0
    var kills = 0
  }

  /// - Parameter isTalking: whether it keeps a log.
  init(_ plan: Plan, standIn: StandIn = .none, isTalking: Bool = false) throws {
    (self.plan, self.standIn, self.isTalking) = (plan, standIn, isTalking)
    virtual_time_enter(plan.seed, Int64(Self.epoch))
    start = virtual_time_now()
    VirtualExecutor.shared.begin(seed: plan.seed)
    server = try DatabaseServer(
      copyOf: plan.tenants != nil
        ? Self.tenantsTemplate : plan.upstream == nil ? Self.template : Self.linkedTemplate)
    database = DatabaseWeather(seed: plan.seed)
    for kind in [Route.Provider.apns, .fcm, .webPush] {
      providers[kind] = Provider(kind, world: self, seed: plan.seed)
    }
    if plan.tenants != nil, let second = Self.secondCredential {
      credentials.apns.append(second)
      tenancy = Tenancy(world: self, seed: plan.seed)
      impostor = Impostor(world: self, seed: plan.seed)
    }
    if let upstream = plan.upstream {
      self.upstream = UpstreamBouncer(upstream, world: self, seed: plan.seed)
    }
    servers = (0..<plan.servers).map { ChatServer($0, world: self, seed: plan.seed) }
    for (number, phone) in plan.phones.enumerated() {
      phones.append(
        Phone(
          number, phone.kind, server: servers[phone.server], user: phone.user, isLegacy: phone.isLegacy,
          isOfStore: phone.isOfStore, topic: phone.hasSecondApp ? Self.secondTopic : Self.topic,
          on: phone.shares.map { phones[$0].device }, world: self))
    }
    strangers = plan.strangers.enumerated().map { Stranger($0, $1, world: self, seed: plan.seed) }
    nodes = (0..<plan.nodes).map { Node("node \($0)", world: self) }
    if !plan.chat.isEmpty { chat = Chat(plan.chat, world: self, seed: plan.seed) }
    if !plan.nextcloudChat.isEmpty {
      nextcloudChat = NextcloudChat(plan.nextcloudChat, world: self, seed: plan.seed)
    }
    if !plan.nextcloud.isEmpty {
      nextcloud = NextcloudServer(plan.nextcloud, world: self, seed: plan.seed)
    }
    if !plan.gateway.isEmpty { gateway = Gateway(plan.gateway, world: self, seed: plan.seed) }
    if hasStoreRecords {
      for node in nodes { try? FileManager.default.removeItem(at: node.storeRecord) }
    }
  }

  /// Whether its nodes are also Nextcloud's push proxy.
  var hasPushProxy: Bool { nextcloud != nil || nextcloudChat != nil }

  /// Whether its nodes look out for lost databases.
  var hasStoreRecords: Bool { hasPushProxy || gateway != nil }

  /// Seconds since it began.
  var time: Double { Double(virtual_time_now() - start) / 1e9 }

  func note(_ text: @autoclosure () -> String) {
    if isTalking { log.append(String(format: "%10.3f  ", time) + text()) }
  }

  /// Records a violation, unless there is one already.
  func violate(_ promise: String, _ text: String) {
    guard violation == nil else { return }
    violation = Violation(promise: promise, text: text)
    note("VIOLATION: \(promise): \(text)")
  }

  // MARK: Running

  /// Runs the world's plan.
  func run() throws {
    defer { end() }
    for node in nodes { try node.start() }
    for event in plan.events where violation == nil {
      // What happens in one millisecond has the same time in the database.
      pass(until: plan.tenants == nil ? event.time : max(event.time, time + 0.002))
      note("-- \(event.action)")
      perform(event.action)
      work()
      guard time >= nextCheck else { continue }
      check()
      nextCheck = time + checkInterval
    }
    guard violation == nil else { return }
    settle()
  }

  /// Runs all jobs that are ready.
  func work() { while VirtualExecutor.shared.step() {} }

  /// Lets time pass.
  ///
  /// - Parameter grain: how late timers may fire, in seconds; a coarse grain makes the simulation faster.
  func pass(until end: Double, grain: Double? = nil) {
    if grain != nil { coarseUntil = end }
    let executor = VirtualExecutor.shared
    let endTime = start + Int64(end * 1e9)
    let began = time
    repeat {
      work()
      guard violation == nil else { return }
      // Timers are exact for 8 s after an event, and then up to 1 s late.
      let grain = grain ?? (time - began < 8 ? 0 : 1)
      let goesOn = executor.pass(upTo: endTime, grain: Int64(grain * 1e9))
      eventLoop.advanceTime(to: .now())
      if !goesOn { break }
    } while true
    work()
  }

  private func end() {
    isOver = true
    duration = time
    for node in nodes { node.kill() }
    // What was under way ends by itself.
    repeat {
      work()
    } while VirtualExecutor.shared.pass(upTo: .max - 1, grain: 3_600_000_000_000)
    virtual_time_leave()
    if hasStoreRecords { for node in nodes { try? FileManager.default.removeItem(at: node.storeRecord) } }
  }

  func nextMessage() -> String {
    messages += 1
    ledger.messages["m\(messages)"] = time
    return "m\(messages)"
  }
}
