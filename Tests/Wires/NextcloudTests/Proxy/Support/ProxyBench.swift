import Basics
import Delivery
import Foundation
import HTTP
import HTTPTypes
import Hummingbird
import HummingbirdTesting
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

@testable import NextcloudProxy
@testable import Operator
@testable import Providers

/// A proxy on a database of its own, between its clients and the provider simulator.
final class ProxyBench: Sendable {
  struct Options: Sendable {
    /// Nobody's deadline comes while a busy machine works: what is still under way then goes to the outbox.
    var settings = ["nextcloud.deadline": "600s"]
    var apps = NextcloudApps()
    var pace = DevicePace.google
    /// Topics that the APNs key serves; nil for no key at all.
    var topics: [String]? = ["com.nextcloud.Talk", "it.twsweb.Nextcloud"]
    /// Whether there is a key of Apple's sandbox, too.
    var hasSandbox = false
    var isSending = true
    /// Where its log goes.
    var log: (@Sendable (String) -> any LogHandler)?
  }

  /// An answer as a client receives it.
  struct Answer: Sendable {
    let status: Int
    let headers: HTTPFields
    let text: String

    var json: JSON { (try? JSON.parse(text)) ?? .null }
    var message: String? { json["message"]?.string }
    /// The text that a server shows its admin: the body, if it is not JSON.
    var reason: String? {
      headers[.contentType] == "text/plain; charset=utf-8" && json == .null && !text.isEmpty ? text : nil
    }
    /// The identifiers reported as unknown; nil if the answer lacks the key.
    var unknown: [String]? {
      guard case .array(let ids)? = json["unknown"] else { return nil }
      return ids.compactMap(\.string)
    }
    var failed: Int64? { json["failed"]?.integer }
  }

  let clock = TestClock(nil)
  let simulator: SimulatedProviders
  let database: any Database
  let devices: NextcloudDevices
  let recorder: RegistrationStore
  let room: RegistrationRoom
  let lossDetector: StoreLossDetector
  let folder: URL
  let logger: Logger
  let proxy: PushProxy
  private let test: TestDatabase
  let providers: PushProviders
  let sender: OutboxSender
  private let client = Mutex<(any TestClientProtocol)?>(nil)

  private init(_ options: Options) async throws {
    folder = FileManager.default.temporaryDirectory.appending(path: "proxy-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let now: @Sendable () -> Date = { [clock] in clock.now }
    let isClockTrusted: @Sendable () -> Bool = { [clock] in clock.isTrusted }
    var simulation = SimulatedProviders.Configuration()
    simulation.now = now
    simulator = try await SimulatedProviders.start(simulation)
    try simulator.writeKeys(to: folder.appending(path: "Keys"))
    providers = try PushProviders(
      configuration: .init(
        endpoints: [.apns: URL(string: simulator.apnsEndpoint), .fcm: URL(string: simulator.fcmEndpoint)],
        caFile: folder.appending(path: "Keys/ca.pem").path), now: now)
    test = try await TestDatabase()
    database = test.database
    let storageKey = StorageKey(bytes: [UInt8](repeating: 7, count: 32))
    devices = NextcloudDevices(database: database, storageKey: storageKey, now: now)
    recorder = RegistrationStore(database: database, storageKey: storageKey, now: now)
    let outbox = Outbox(database: database, storageKey: storageKey, maxAge: 86_400, now: now)
    var logger = options.log.map { Logger(label: "test", factory: $0) } ?? Logger(label: "test")
    logger.logLevel = options.log == nil ? .critical : .warning
    self.logger = logger
    let deliverer = Deliverer(
      providers: providers, registrations: recorder, outbox: outbox, deadline: .seconds(600),
      pace: options.pace, now: now, logger: logger)
    sender = OutboxSender(outbox: outbox, deliverer: deliverer, now: now, logger: logger)
    lossDetector = StoreLossDetector(
      file: folder.appending(path: "store.json"), database: database, now: now,
      isClockTrusted: isClockTrusted,
      logger: logger)
    let (configuration, _) = try Configuration.load(
      file: nil, environment: [:], overrides: options.settings, workingDirectory: folder.path)
    room = RegistrationRoom(
      .init(ofServer: 1, devices: configuration.nextcloudProxy.maxDevices, subscriptions: 1),
      database: database, now: now, logger: logger)
    proxy = PushProxy(
      configuration.nextcloudProxy, http: configuration.http, apps: options.apps, devices: devices,
      recorder: recorder,
      room: room,
      deliverer: deliverer,
      lossDetector: lossDetector, logger: logger)
    providers.use(try credentials(options))
  }

  private func credentials(_ options: Options) throws -> Credentials {
    let fcm = try FCMCredential(
      name: "default", json: Data(contentsOf: folder.appending(path: "Keys/fcm/default.json")))
    let apns = options.topics.map { topics in
      APNsCredential(
        name: "main", keyID: simulator.apnsKeyID, teamID: simulator.apnsTeamID,
        privateKey: simulator.apnsPrivateKeyPEM, topics: topics, environment: .production)
    }
    let sandbox = APNsCredential(
      name: "sandbox", keyID: simulator.apnsSandboxKey.id, teamID: simulator.apnsTeamID,
      privateKey: simulator.apnsSandboxKey.pem, topics: options.topics ?? [], environment: .sandbox)
    return Credentials(apns: (apns.map { [$0] } ?? []) + (options.hasSandbox ? [sandbox] : []), fcm: [fcm])
  }

  /// Runs a test on a bench.
  static func test(
    _ configure: (inout Options) -> Void = { _ in },
    _ test: @escaping @Sendable (ProxyBench) async throws -> Void
  ) async throws {
    var options = Options()
    configure(&options)
    let bench = try await ProxyBench(options)
    let isSending = options.isSending
    let sending = Task { if isSending { await bench.sender.run() } }
    let router = Routes()
    router.add(
      EnvelopeLayer(trustedProxies: [ClientAddress.Network("127.0.0.1")].compactMap(\.self)))
    NextcloudProxyRoutes(bench.proxy).addRoutes(to: router)
    let result: Result<Void, any Error>
    do {
      try await Application(responder: router.buildResponder(), logger: bench.logger).test(.router) {
        client in
        bench.client.withLock { $0 = client }
        try await test(bench)
      }
      result = .success(())
    } catch {
      result = .failure(error)
    }
    sending.cancel()
    await sending.value
    await bench.providers.shutdown(within: .zero)
    await bench.simulator.stop()
    await bench.database.close()
    try? FileManager.default.removeItem(at: bench.folder)
    try result.get()
  }
}

extension ProxyBench {
  /// Calls the proxy.
  func call(
    _ method: HTTPRequest.Method, _ uri: String, type: String? = "application/x-www-form-urlencoded",
    userAgent: String? = ProxyPhone.App.talkAndroid.rawValue, address: String? = nil,
    body: some Sequence<UInt8> = []
  ) async throws -> Answer {
    var headers: HTTPFields = [:]
    headers[.contentType] = type
    headers[.userAgent] = userAgent
    headers[.xForwardedFor] = address
    let client = try #require(client.withLock { $0 })
    let response = try await client.executeRequest(
      uri: uri, method: method, headers: headers, body: ByteBuffer(bytes: body))
    return Answer(
      status: Int(response.status.code), headers: response.headers, text: String(buffer: response.body))
  }

  /// Sends notifications as a server does.
  func notify(_ entries: [String], address: String? = nil) async throws -> Answer {
    let fields = entries.enumerated().map { (name: "notifications[\($0)]", value: $1) }
    return try await call(.post, "/notifications", address: address, body: Form.encode(fields))
  }

  /// The number of a query.
  func number(_ sql: String) async throws -> Int64 {
    try await database.query(Statement(sql)).integer
  }

  /// Lets time pass, and waits until what has become due has been sent and answered. The clock must stand still.
  func pass(_ seconds: TimeInterval) async throws {
    clock.advance(seconds)
    let now = Int(clock.now.milliseconds)
    // What is being sent is due when its lease ends.
    let leaseEnd = now + Int(providers.answerTimeout / .milliseconds(1)) + 15_000
    try await eventually("everything due to be sent") {
      try await self.number("SELECT COUNT(*) FROM outbox WHERE due_at <= \(now) OR due_at = \(leaseEnd)") == 0
    }
  }

  func faults(_ change: (inout Faults) -> Void) async {
    var faults = Faults()
    change(&faults)
    await simulator.setFaults(faults)
  }
}

extension Trait where Self == Fixture<ProxyBench> {
  /// A bench of the test's own.
  static var bench: Self { Fixture { try await ProxyBench.test({ _ in }, $0) } }
}
