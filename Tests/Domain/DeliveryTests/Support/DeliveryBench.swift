import Foundation
import Logging
import NIOCore
import ProviderSimulator
import Registrations
import SQL
import Sealing
import Synchronization
import TestDatabase
import TestSupport
import Testing

@testable import Basics
@testable import Delivery
@testable import HTTPClient
@testable import Operator
@testable import Providers

/// The whole path of a delivery: registrations and outbox in SQLite, connections over TLS and HTTP/2, and the
/// simulator as the provider.
final class DeliveryBench: Sendable {
  struct Device: Sendable {
    let kind: PushToken.Kind
    let token: String
    let registration: RegistrationReference
  }

  static let topic = "org.example.chat"

  let clock = TestClock(nil)
  /// Apple's and Google's.
  let simulatorClock: TestClock
  let simulator: SimulatedProviders
  let providers: PushProviders
  let database: any Database
  let registrations: RegistrationStore
  let recorder: RegistrationStore
  let outbox: Outbox
  let history: History
  let deliverer: Deliverer
  let sender: OutboxSender
  private let test: TestDatabase
  let realm: Int64
  private let folder: URL
  let log = LogRecorder()
  let metrics = PrometheusRegistry()

  private init(deadline: Duration, answerTimeout: Duration) async throws {
    folder = FileManager.default.temporaryDirectory.appending(path: "delivery-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    simulatorClock = TestClock(nil)
    var configuration = SimulatedProviders.Configuration()
    configuration.now = { [simulatorClock] in simulatorClock.now }
    simulator = try await SimulatedProviders.start(configuration)
    try simulator.writeKeys(to: folder.appending(path: "Keys"))
    let caFile = folder.appending(path: "Keys/ca.pem")
    let now: @Sendable () -> Date = { [clock] in clock.now }
    providers = try PushProviders(
      configuration: .init(
        endpoints: [.apns: URL(string: simulator.apnsEndpoint), .fcm: URL(string: simulator.fcmEndpoint)],
        caFile: caFile.path,
        webPush: .init(key: VAPIDKey(), contact: "mailto:a@example.org", privateHosts: ["127.0.0.1"])),
      pool: .init(answerTimeout: .nanoseconds(Int64(answerTimeout / .nanoseconds(1)))), now: now)
    test = try await TestDatabase()
    database = test.database
    let storageKey = StorageKey(bytes: [UInt8](repeating: 7, count: 32))
    realm = try await Self.realm(in: database, storageKey, now)
    registrations = RegistrationStore(database: database, storageKey: storageKey, now: now)
    recorder = RegistrationStore(
      database: database, storageKey: storageKey, now: now, isClockTrusted: { [clock] in clock.isTrusted })
    outbox = Outbox(
      database: database, storageKey: storageKey, maxAge: 86_400, now: now,
      isClockTrusted: { [clock] in clock.isTrusted })
    history = History(database: database, now: now)
    deliverer = Deliverer(
      providers: providers, registrations: recorder, outbox: outbox, deadline: deadline, history: history,
      now: now, metrics: metrics, logger: log.logger)
    sender = OutboxSender(outbox: outbox, deliverer: deliverer, now: now, logger: log.logger)
    providers.use(try credentials())
  }

  private static func realm(
    in database: any Database, _ storageKey: StorageKey, _ now: @escaping @Sendable () -> Date
  ) async throws -> Int64 {
    let (server, _) = try await RemoteServers(database: database, storageKey: storageKey, now: now).add(
      hostname: try Hostname("chat.example.org"), contactEmail: "admin@example.org")
    let uuid = UUID()
    let realm = RealmDescription(
      realmID: 2, uuid: uuid, ownerSecret: "zuliprealm_secret", host: "chat.example.org", name: "Example",
      orgType: 10, dateCreated: Date(timeIntervalSince1970: 1_600_000_000), isDeactivated: false,
      isSystemBotRealm: false, authenticationMethods: "{}")
    let sync = RealmSync(storageKey: storageKey, now: now)
    _ = try await database.write { try sync.apply([realm], server: server.id, on: $0) }
    return try #require(try await RemoteRealms(database: database).find(uuid: uuid)).id
  }

  /// Runs a test on a bench whose outbox is being sent, unless the test does that itself.
  static func test(
    deadline: Duration = .seconds(5), answerTimeout: Duration = .seconds(5), isSending: Bool = true,
    _ test: @escaping @Sendable (DeliveryBench) async throws -> Void
  ) async throws {
    let bench = try await DeliveryBench(deadline: deadline, answerTimeout: answerTimeout)
    let result: Result<Void, any Error>
    do {
      result = .success(try await isSending ? bench.sending { try await test(bench) } : test(bench))
    } catch {
      result = .failure(error)
    }
    await bench.providers.shutdown(within: .zero)
    await bench.deliverer.settled()
    await bench.simulator.stop()
    await bench.database.close()
    try? FileManager.default.removeItem(at: bench.folder)
    try result.get()
  }

  /// Sends what is in the outbox while `body` runs.
  func sending(_ body: () async throws -> Void) async throws {
    let sending = Task { await sender.run() }
    let result: Result<Void, any Error>
    do { result = .success(try await body()) } catch { result = .failure(error) }
    sending.cancel()
    await sending.value
    try result.get()
  }

  /// The simulator's credentials, except for what the arguments change.
  ///
  /// - Parameter environments: of Apple's, that have a key.
  func credentials(
    keyID: String? = nil, topics: [String] = [topic], project: String? = nil,
    environments: [APNsCredential.Environment] = [.production]
  ) throws -> Credentials {
    let file = folder.appending(path: "Keys/fcm/default.json")
    var fcm = try FCMCredential(name: "default", json: Data(contentsOf: file))
    if let project { fcm.projectID = project }
    let apns = APNsCredential(
      name: "main", keyID: keyID ?? simulator.apnsKeyID, teamID: simulator.apnsTeamID,
      privateKey: simulator.apnsPrivateKeyPEM, topics: topics, environment: .production)
    let sandbox = APNsCredential(
      name: "sandbox", keyID: simulator.apnsSandboxKey.id, teamID: simulator.apnsTeamID,
      privateKey: simulator.apnsSandboxKey.pem, topics: topics, environment: .sandbox)
    return Credentials(apns: environments.map { $0 == .production ? apns : sandbox }, fcm: [fcm])
  }

  /// A deliverer as on another node, or after a restart.
  func anotherDeliverer() -> Deliverer {
    Deliverer(
      providers: providers, registrations: recorder, outbox: outbox, deadline: .seconds(60),
      now: { [clock] in clock.now },
      metrics: metrics, logger: log.logger)
  }

  var apnsRoute: Route { Route(provider: .apns, credential: "main", target: Self.topic) }
  var sandboxRoute: Route { Route(provider: .apns, credential: "sandbox", target: Self.topic) }
  var fcmRoute: Route { Route(provider: .fcm, credential: "default", target: simulator.projectID) }
  func state(_ route: Route) -> PushProviders.RouteState? { deliverer.routeStates()[route] }

  /// Advances all clocks.
  func advance(_ seconds: TimeInterval) {
    clock.advance(seconds)
    simulatorClock.advance(seconds)
  }

  /// Registers devices.
  func devices(_ kind: PushToken.Kind, _ count: Int = 1) async throws -> [Device] {
    var tokens: [PushToken] = []
    for index in 0..<count {
      let name = UUID().uuidString.replacing("-", with: "").lowercased()
      tokens.append(try PushToken(kind == .apns ? name + name : "fcm-\(index):\(name)", kind: kind))
    }
    for token in tokens { try await register(token) }
    let found = try await registrations.lookup(realm: realm, tokenIDs: tokens.map(\.id))
      .found.values.sorted { $0.reference.id < $1.reference.id }
    return found.map { Device(kind: kind, token: $0.token.text, registration: $0.reference) }
  }

  /// Registers a token, or renews its registration.
  func register(_ token: PushToken) async throws {
    try await registrations.register(
      token, iosAppID: token.kind == .apns ? Self.topic : nil, realm: realm, bouncerKey: "key")
  }

  func lives(_ device: Device) async throws -> Bool {
    try await recorder.living([device.registration.id]).contains(device.registration.id)
  }

  /// A notification that its name identifies.
  func push(
    _ name: String, to device: Device, of owner: Owner = .chatServer(1), expiration: Date? = nil,
    topic: String = topic
  ) -> Outgoing {
    let push: Push =
      switch device.kind {
      case .apns:
        .apns(
          APNsNotification(
            token: device.token, topic: topic,
            payload: ByteBuffer(string: #"{"aps":{"alert":"a"},"name":"\#(name)"}"#), pushType: .alert,
            expiration: expiration))
      case .fcm: .fcm(FCMMessage(token: device.token, data: ["name": name]))
      }
    return Outgoing(push: push, registration: device.registration, owner: owner)
  }

  /// Delivers one notification.
  func deliver(_ name: String, to device: Device) async throws -> DeliveryResult {
    try #require(try await deliverer.deliver([push(name, to: device)]).first)
  }

  /// Delivers one notification however long it takes, where the bench's deadline is too short to connect in.
  func deliverPatiently(_ name: String, to device: Device) async throws -> DeliveryResult {
    try #require(try await anotherDeliverer().deliver([push(name, to: device)]).first)
  }

  func faults(_ change: (inout Faults) -> Void) async {
    var faults = Faults()
    change(&faults)
    await simulator.setFaults(faults)
  }

  /// The number of a query; 0 for NULL.
  func number(_ sql: String) async throws -> Int64 {
    try await database.query("SELECT COALESCE((\(sql)), 0)").integer
  }

  /// Waits until nothing is in the outbox.
  func drained(sourceLocation: SourceLocation = #_sourceLocation) async throws {
    try await eventually("an empty outbox", sourceLocation: sourceLocation) {
      // The rows are gone before whoever removed them is told so, and counts.
      try await self.number("SELECT COUNT(*) FROM outbox") == 0 && self.outbox.count == 0
    }
  }

  /// The names that were accepted, each with the `apns-id` (or FCM's message name) of every time.
  func accepted() -> [String: [String]] {
    var accepted: [String: [String]] = [:]
    for arrival in simulator.deliveries() {
      accepted[Self.name(arrival.payload), default: []].append(arrival.id)
    }
    return accepted
  }

  static func name(_ payload: Data) -> String {
    struct Payload: Decodable {
      struct Message: Decodable { let data: [String: String] }
      let name: String?
      let message: Message?
    }
    let payload = try? JSONDecoder().decode(Payload.self, from: payload)
    return payload?.name ?? payload?.message?.data["name"] ?? ""
  }
}

extension Trait where Self == Fixture<DeliveryBench> {
  /// A bench of the test's own.
  static func bench(
    deadline: Duration = .seconds(5), answerTimeout: Duration = .seconds(5), isSending: Bool = true
  ) -> Self {
    Fixture {
      try await DeliveryBench.test(deadline: deadline, answerTimeout: answerTimeout, isSending: isSending, $0)
    }
  }
}
