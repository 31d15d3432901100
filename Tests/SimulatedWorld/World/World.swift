import CVirtualTime
import Crypto
import Foundation
import Logging
import NIOCore
import NIOEmbedded
import Operations
import Providers
import Registrations
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
  /// Precedes every text that only phones may decrypt. It must not be found in clear either.
  static let plaintext = "PLAINTEXT-"
  static let topic = "org.example.chat"
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
  private(set) var strangers: [Stranger] = []
  private(set) var upstream: UpstreamBouncer?
  /// The phone of every token that was ever issued.
  var owners: [String: Phone] = [:]
  var lives = 0
  var calls = 0
  /// Calls and notifications, for figures.
  var figures = Figures()
  private(set) var violation: Violation?
  /// The world's log; empty unless `isTalking`.
  private(set) var log: [String] = []
  private let isTalking: Bool
  var ledger = Ledger()
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
    server = try DatabaseServer(copyOf: plan.upstream == nil ? Self.template : Self.linkedTemplate)
    database = DatabaseWeather(seed: plan.seed)
    for kind in [Route.Provider.apns, .fcm] {
      providers[kind] = Provider(kind, world: self, seed: plan.seed)
    }
    if let upstream = plan.upstream {
      self.upstream = UpstreamBouncer(upstream, world: self, seed: plan.seed)
    }
    servers = (0..<plan.servers).map { ChatServer($0, world: self, seed: plan.seed) }
    phones = plan.phones.enumerated().map { number, phone in
      Phone(
        number, phone.kind, server: servers[phone.server], user: phone.user, isLegacy: phone.isLegacy,
        isOfStore: phone.isOfStore, world: self)
    }
    strangers = plan.strangers.enumerated().map { Stranger($0, $1, world: self, seed: plan.seed) }
    nodes = (0..<plan.nodes).map { Node("node \($0)", world: self) }
    if !plan.chat.isEmpty { chat = Chat(plan.chat, world: self, seed: plan.seed) }
    if !plan.nextcloud.isEmpty {
      nextcloud = NextcloudServer(plan.nextcloud, world: self, seed: plan.seed)
      for node in nodes { try? FileManager.default.removeItem(at: node.storeRecord) }
    }
  }

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
      pass(until: event.time)
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
    if nextcloud != nil { for node in nodes { try? FileManager.default.removeItem(at: node.storeRecord) } }
  }

  func nextMessage() -> String {
    messages += 1
    ledger.messages["m\(messages)"] = time
    return "m\(messages)"
  }

  // MARK: What all worlds have in common

  struct Identity: Sendable {
    let uuid: String
    /// Row id.
    let id: Int64
    let key: String
    let realm: String
  }

  /// What `prepare` has made.
  nonisolated(unsafe) private(set) static var template: [UInt8] = []
  /// The same, with chat servers that have a second app.
  nonisolated(unsafe) private(set) static var linkedTemplate: [UInt8] = []
  nonisolated(unsafe) private(set) static var servers: [Identity] = []
  /// The chat servers of strangers.
  nonisolated(unsafe) private(set) static var strangers: [Identity] = []
  /// The identity with which the built-in chat server calls its bouncer.
  nonisolated(unsafe) private(set) static var chatIdentity: Identity?
  nonisolated(unsafe) private(set) static var credentials = Credentials()
  nonisolated(unsafe) private(set) static var settings: Configuration?

  /// Makes the data that all worlds start with, once. It does not depend on a seed.
  static func prepare() async throws {
    let empty = try await DatabaseServer.template()
    let server = try DatabaseServer(copyOf: empty)
    credentials = Credentials(
      apns: [
        APNsCredential(
          name: "main", keyID: "ABCDEFGHIJ", teamID: "TEAM123456",
          privateKey: P256.Signing.PrivateKey().pemRepresentation, topics: [topic, "com.nextcloud.Talk"],
          environment: .production)
      ],
      fcm: [
        FCMCredential(
          name: "default", projectID: "p", clientEmail: "a@example.org", privateKeyID: "k", privateKey: "",
          tokenURI: URL(string: "https://oauth2.example.org/token")!)
      ])
    (settings, _) = try Configuration.load(
      file: nil, environment: [:],
      overrides: [
        "retention.expired_days": "2", "bouncer.rate_limit.per_server": "0",
        "http.rate_limit.per_address": "0", "upstream.url": "https://push.vendor.example",
        "server.rate_limit.per_user": "0",
      ], workingDirectory: "/")
    let now: @Sendable () -> Date = { Date(timeIntervalSince1970: epoch) }
    let storageKey = StorageKey(bytes: Node.storageKey)
    let database = DatabaseServer.Direct(server: server)
    func addServer(_ number: Int, of domain: String) async throws -> Identity {
      let remote = RemoteServers(database: database, storageKey: storageKey, now: now)
      let (added, key) = try await remote.add(
        hostname: try Hostname("chat\(number).\(domain)"), contactEmail: "admin@\(domain)")
      let realm = UUID()
      let description = RealmDescription(
        realmID: 2, uuid: realm, ownerSecret: "zuliprealm_secret\(number)", host: "chat\(number).\(domain)",
        name: "Example", orgType: 10, dateCreated: Date(timeIntervalSince1970: 1_600_000_000),
        isDeactivated: false, isSystemBotRealm: false, authenticationMethods: "{}")
      let sync = RealmSync(storageKey: storageKey, now: now)
      let id = added.id
      _ = try await database.write { try sync.apply([description], server: id, on: $0) }
      return Identity(
        uuid: added.uuid.uuidString.lowercased(), id: id, key: key, realm: realm.uuidString.lowercased())
    }
    for number in 0..<2 { servers.append(try await addServer(number, of: "example.org")) }
    let accounts = AccountStore(database: database, storageKey: storageKey, now: now)
    let (remote, key) = try await RemoteServers(database: database, storageKey: storageKey, now: now).add(
      hostname: try Hostname("chat.example.org"), contactEmail: "admin@example.org")
    let realm = UUID()
    _ = try await accounts.put(
      realm: realm, name: "Chat", url: "https://chat.example.org", requiresE2EE: false)
    for user in 0..<Chat.users {
      _ = try await accounts.add(
        .init(email: Chat.email(of: user), apiKey: Chat.apiKey(of: user)), userID: Int64(user + 1),
        realm: realm)
    }
    chatIdentity = Identity(
      uuid: remote.uuid.uuidString.lowercased(), id: remote.id, key: key, realm: realm.uuidString.lowercased()
    )
    for number in 0..<Stranger.chatServers {
      strangers.append(try await addServer(number, of: "example.net"))
    }
    template = server.image()
    let links = UpstreamLinks(database: database, storageKey: storageKey, now: now)
    for server in servers { try await links.enable(server.id) }
    linkedTemplate = server.image()
  }
}
