import AsyncHTTPClient
import Foundation
import HTTP
import Logging
import Migrations
import NIOCore
import NIOHTTP1
import NIOSSL
import ProviderSimulator
import Providers
import SQL
import Sealing
import Server
import ServiceLifecycle
import Synchronization
import TestSupport
import Testing

@testable import Demo
@testable import Operator

/// The service in a folder of its own, between a chat server and providers that can be made to fail.
struct Stage {
  static let backendToken = "host-application-token"

  let place: Workplace
  let simulator: SimulatedProviders
  let bouncerKey: String
  let credentials: JSON
  private let realm = UUID().uuidString.lowercased()

  /// - Parameter database: where it is, if not in a file in the folder.
  static func test(database: String? = nil, _ body: (Stage) async throws -> Void) async throws {
    let environment = database.map { ["PUSH_BOUNCER_DATABASE_URL": $0] } ?? [:]
    try await Workplace.test(environment: environment) { place in
      var configuration = SimulatedProviders.Configuration()
      configuration.clear = true
      configuration.keysDirectory = place.folder.appending(path: "Keys").path
      let simulator = try await SimulatedProviders.start(configuration)
      do {
        _ = try await place.run("init")
        let keys = try await place.run("keys", "list", "--json").json["keys"]?.elements ?? []
        let server = try await place.run("server", "add", "--hostname", "chat.example.org", "--json").json
        try await body(
          Stage(
            place: place, simulator: simulator, bouncerKey: try #require(keys.first?["public_key"]?.string),
            credentials: server))
      } catch {
        await simulator.stop()
        throw error
      }
      await simulator.stop()
    }
  }

  /// Sets the faults of Apple and Google only.
  func faults(_ change: (inout ProviderFaults) -> Void = { _ in }) async {
    var faults = Faults()
    change(&faults.apns)
    change(&faults.fcm)
    await simulator.setFaults(faults)
  }

  /// What makes `device` a phone without Google.
  var webPush: [String] {
    ["--kind", "webpush", "--push-service", simulator.webPushEndpoint, "--ca-file", "Keys/ca.pem"]
  }

  /// Runs the service for as long as `test` lasts; a service that is still there then is killed.
  func serve(
    _ arguments: String..., through launcher: [String] = [],
    test: (Running, ChatServer) async throws -> Void
  ) async throws {
    try await serve(arguments, through: launcher, test: test)
  }

  /// - Parameter isSecure: whether it speaks TLS, with a certificate that only this server trusts.
  func serve(
    _ arguments: [String], isSecure: Bool = false, through launcher: [String] = [],
    input: FileHandle = .nullDevice, test: (Running, ChatServer) async throws -> Void
  ) async throws {
    var arguments = arguments
    if isSecure {
      let (certificate, key) = try TestCertificate.makePEM()
      try place.write("certificate.pem", certificate)
      try place.write("key.pem", key)
      arguments += ["--http.tls.certificate_file", "certificate.pem", "--http.tls.key_file", "key.pem"]
    }
    let providers = settings.flatMap { ["--\($0)", $1] }
    try await place.serve(providers + arguments, through: launcher, input: input) { running in
      // A client of its own: connections to a service that was killed are no use to the next.
      try await HTTPClient.withHTTPClient(configuration: Self.client(isSecure: isSecure)) { client in
        let server = Self.server(
          credentials, realm: realm, client: client,
          at: isSecure ? running.url("public").replacing("http:", with: "https:") : running.url("public"))
        _ = try await server.uploadRealm(hostname: "chat.example.org")
        try await test(running, server)
      }
    }
  }

  /// What the service runs with here.
  private var settings: [String: String] {
    [
      "providers.ca_file": place.folder.appending(path: "Keys/ca.pem").path,
      "apns.endpoint": simulator.apnsEndpoint, "fcm.endpoint": simulator.fcmEndpoint,
      "webpush.allow_private_hosts": "127.0.0.1", "bouncer.rate_limit.per_server": "0",
      "webpush_gateway.enabled": "true", "webpush_gateway.rate_limit.per_address": "0",
      "webpush_gateway.new_subscriptions_per_address": "0",
    ]
  }

  /// The service of a program that has other migrations, within this process. It works until ``OtherNode/stop()``.
  ///
  /// - Parameter database: `database.url`
  func otherNode(_ migrations: (DatabaseEngine) -> [Migration], database: String) async throws -> OtherNode {
    let own = [
      "http.port": "0", "admin.port": "0", "database.url": database,
      "keys.directory": place.folder.appending(path: "Keys").path,
    ]
    let (configuration, _) = try Configuration.load(
      file: nil, environment: [:], overrides: settings.merging(own) { $1 },
      workingDirectory: place.folder.path)
    let service = try await BouncerService.build(
      configuration, metrics: PrometheusRegistry(), migrations: migrations,
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    let group = ServiceGroup(
      configuration: .init(
        services: service.services, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }))
    let work = Task { try await group.run() }
    let port = await service.publicPort.wait()
    let server = Self.server(
      credentials, realm: realm, client: HTTPClient.shared, at: "http://127.0.0.1:\(port)")
    return OtherNode(server: server, group: group, work: work)
  }

  private static func client(isSecure: Bool) -> HTTPClient.Configuration {
    var configuration = HTTPClient.Configuration()
    if isSecure {
      configuration.tlsConfiguration = .makeClientConfiguration()
      configuration.tlsConfiguration?.certificateVerification = .none
    }
    configuration.timeout.connect = TimeAmount(longestWait)
    configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 64
    return configuration
  }

  /// A chat server that waits for an answer for as long as a test may. ``StockServer`` does so for as long as stock ones do.
  private static func server(_ credentials: JSON, realm: String, client: HTTPClient, at url: String)
    -> ChatServer
  {
    var server = ChatServer(
      bouncer: url, id: credentials["org_id"]?.string ?? "", key: credentials["org_key"]?.string ?? "",
      realm: realm, client: client)
    server.bouncer.timeout = TimeAmount(longestWait)
    return server
  }

  /// Registers a phone, as its chat server does.
  func register(_ phone: VirtualPhone, at server: ChatServer) async throws {
    try await server.register(phone, bouncerKey: bouncerKey)
  }

  /// Registers `count` phones, every other one an iPhone.
  func phones(_ count: Int, at server: ChatServer) async throws -> [VirtualPhone] {
    var phones: [VirtualPhone] = []
    for index in 0..<count {
      let phone = Self.phone(index.isMultiple(of: 2) ? .apns : .fcm)
      try await register(phone, at: server)
      phones.append(phone)
    }
    return phones
  }

  /// Registers another chat server.
  func anotherServer(_ hostname: String, at running: Running) async throws -> ChatServer {
    let added = try await place.run("server", "add", "--hostname", hostname, "--json").json
    let server = Self.server(
      added, realm: UUID().uuidString.lowercased(), client: HTTPClient.shared, at: running.url("public"))
    _ = try await server.uploadRealm(hostname: hostname)
    return server
  }

  /// Registers `count` phones without Google's services.
  func subscribers(_ count: Int, at server: ChatServer, of running: Running) async throws -> [VirtualPhone] {
    let answer = try await running.call(path: "/api/v1/zulip-services/webpush/vapid")
    let key = try #require(answer.json["vapid"]?.string)
    var phones: [VirtualPhone] = []
    for _ in 0..<count {
      let id = try #require(simulator.subscribe(vapid: key))
      let phone = VirtualPhone(PushSubscription(endpoint: "\(simulator.webPushEndpoint)/push/\(id)"))
      try await register(phone, at: server)
      phones.append(phone)
    }
    return phones
  }

  static func phone(_ kind: PushToken.Kind) -> VirtualPhone { VirtualPhone(kind, appID: "org.example.chat") }

  /// What has reached the providers and was taken, by ``ChatServer/mark(_:)``'s marks: how often.
  func arrived() -> [String: Int] {
    var marks: [String: Int] = [:]
    for mark in simulator.deliveries().compactMap(Self.mark) { marks[mark, default: 0] += 1 }
    return marks
  }

  /// The mark of what has arrived, if it is one of ``ChatServer/mark(_:)``'s.
  static func mark(of delivery: Delivery) -> String? {
    guard let payload = try? JSON.parse(Array(delivery.payload)) else { return nil }
    let members = payload["message"]?["data"] ?? payload
    return (members["encrypted_data"] ?? members["body"])?.string
  }

  /// Waits until everything promised is there.
  func expectArrival(of marks: Set<String>, sourceLocation: SourceLocation = #_sourceLocation) async {
    let end = ContinuousClock.now + longestWait
    var missing = marks
    while !missing.isEmpty, ContinuousClock.now < end {
      missing.subtract(arrived().keys)
      try? await Task.sleep(for: .milliseconds(100))
    }
    #expect(
      missing.isEmpty, "\(missing.count) of \(marks.count) never arrived", sourceLocation: sourceLocation)
  }
}

/// A node in the tests' own process.
struct OtherNode {
  let server: ChatServer
  fileprivate let group: ServiceGroup
  fileprivate let work: Task<Void, any Error>

  /// Stops it in an orderly way.
  func stop() async throws {
    await group.triggerGracefulShutdown()
    try await work.value
  }
}

extension ChatServer {
  /// What a notify call was answered with.
  struct Promise {
    /// A mark per phone, all different: the sealed data that its provider gets.
    let marks: [String]
    let answer: JSON

    /// The phones that the bouncer calls dead.
    var deleted: [JSON] { answer["delete_token_ids"]?.elements ?? [] }

    var sent: Int64 {
      (answer["apple_successfully_sent_count"]?.integer ?? 0)
        + (answer["android_successfully_sent_count"]?.integer ?? 0)
    }
  }

  /// Sends every phone a notification that can be told from every other.
  func mark(_ phones: [VirtualPhone]) async throws -> Promise {
    let marks = phones.map { _ in Base64.encode(Array(UUID().uuidString.utf8)) }
    return Promise(marks: marks, answer: try await notify(phones, encrypted: marks))
  }
}

extension ChatServer {
  private var gateway: JSONService {
    JSONService(
      url: bouncer.url.replacing("/api/v1/remotes", with: ""),
      headers: [("TTL", "86400"), ("Content-Encoding", "aes128gcm")], client: bouncer.client)
  }

  /// Subscribes a phone at the Web Push gateway.
  ///
  /// - Returns: the path of its endpoint, which stays while the service's port changes.
  func subscribe(_ phone: VirtualPhone) async throws -> String {
    var registration: JSON.Object = [
      "token": .string(phone.token), "token_kind": .string(phone.kind.rawValue),
    ]
    registration["ios_app_id"] = phone.appID.map(JSON.string)
    let answer = try await gateway.call(.POST, "webpush/v1/subscriptions", .json(.object(registration)))
    guard let path = answer["endpoint"]?.string.flatMap({ URL(string: $0)?.path() }) else {
      throw DemoError("no endpoint")
    }
    return path
  }

  /// Posts a message to an endpoint that has to be there.
  ///
  /// - Returns: its mark.
  func post(to path: String) async throws -> String {
    var endpoint = gateway
    endpoint = JSONService(url: endpoint.url + path, headers: endpoint.headers, client: endpoint.client)
    let body = (0..<150).map { _ in UInt8.random(in: .min ... .max) }
    let status = try await endpoint.post(ByteBuffer(bytes: body))
    guard status == .created else {
      throw JSONService.Refusal(call: path, status: status, code: nil, message: nil)
    }
    return Base64URL.encode(body)
  }
}

extension Stage {
  /// Registers a phone, or notifies some; or does so through the Web Push gateway. What was answered is in the ledger.
  func act(_ ledger: Ledger, at server: ChatServer) async throws {
    guard Int.random(in: 0..<4) > 0 else {
      guard let path = ledger.now.endpoints.randomElement(), Int.random(in: 0..<5) > 0 else {
        return ledger.add(endpoint: try await server.subscribe(Self.phone(.random() ? .apns : .fcm)))
      }
      return ledger.add(mark: try await server.post(to: path))
    }
    let phones = ledger.phones(.random(in: 1...4))
    if phones.isEmpty || Int.random(in: 0..<5) == 0 {
      let phone = Self.phone(.random() ? .apns : .fcm)
      try await register(phone, at: server)
      ledger.add(phone)
    } else {
      ledger.add(try await server.mark(phones))
    }
  }
}

/// What brings the whole program into trouble: one at a time, it takes all that the machine has.
@Suite(.serialized) enum Chaos {}

/// Everything that was answered with 200.
final class Ledger: Sendable {
  struct Contents {
    var phones: [VirtualPhone] = []
    var marks: Set<String> = []
    /// Paths of endpoints at the Web Push gateway.
    var endpoints: [String] = []
    /// Answers that called a registered phone dead.
    var deletions = 0
    var refusals = 0

    /// The phones, as many at a time as one call takes easily.
    var groups: [[VirtualPhone]] {
      stride(from: 0, to: phones.count, by: 50).map { Array(phones[$0..<min($0 + 50, phones.count)]) }
    }
  }

  private let contents = Mutex(Contents())

  var now: Contents { contents.withLock { $0 } }

  func add(_ phone: VirtualPhone) {
    contents.withLock { $0.phones.append(phone) }
  }

  func add(_ promise: ChatServer.Promise) {
    contents.withLock {
      $0.marks.formUnion(promise.marks)
      $0.deletions += promise.deleted.count
    }
  }

  func add(endpoint: String) {
    contents.withLock { $0.endpoints.append(endpoint) }
  }

  func add(mark: String) {
    _ = contents.withLock { $0.marks.insert(mark) }
  }

  func addRefusal() {
    contents.withLock { $0.refusals += 1 }
  }

  func phones(_ count: Int) -> [VirtualPhone] {
    contents.withLock { contents in (0..<count).compactMap { _ in contents.phones.randomElement() } }
  }
}

extension Trait where Self == Fixture<Stage> {
  /// A service of the test's own between a chat server and providers.
  static var stage: Self { Fixture { try await Stage.test($0) } }
}
