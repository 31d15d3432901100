import Accounts
import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Logging
import NIOCore
import SQL
import Sealing
import Synchronization
import TestDatabase
import Testing
import Wire

@testable import ZulipServer

/// The chat-server side on a database of its own, called as its clients call it. The bouncer's end of the
/// wire is the test's.
final class Chat: Sendable {
  /// A clock that stands still until it is moved.
  final class Clock: Sendable {
    private let time = Mutex(Date(timeIntervalSince1970: 1_790_000_000))
    var now: Date { time.withLock { $0 } }
    func advance(_ seconds: TimeInterval) { time.withLock { $0 += seconds } }
    private let trusted = Mutex(true)
    var isTrusted: Bool {
      get { trusted.withLock { $0 } }
      set { trusted.withLock { $0 = newValue } }
    }
  }

  /// What the far end of the wire answers, and what it was asked.
  final class Wire: Sendable {
    typealias Answering = @Sendable (BouncerClient.Call) async throws -> (Int, String)

    private let answering = Mutex<Answering>({ _ in (200, #"{"result":"success","msg":""}"#) })
    private let asked = Mutex<[BouncerClient.Call]>([])

    func answer(_ answering: @escaping Answering) { self.answering.withLock { $0 = answering } }
    func answer(_ status: Int, _ body: String) { answer { _ in (status, body) } }

    /// Each call to an endpoint so far.
    func calls(_ endpoint: String) -> [BouncerClient.Call] {
      asked.withLock { $0.filter { $0.endpoint == endpoint } }
    }

    fileprivate func call(_ call: BouncerClient.Call) async throws -> BouncerClient.Answer {
      asked.withLock { $0.append(call) }
      let (status, body) = try await answering.withLock { $0 }(call)
      return .init(status: status, body: ByteBuffer(string: body))
    }
  }

  struct Answer: Sendable {
    let status: Int
    let headers: HTTPFields
    let json: JSON
    var message: String? { json["msg"]?.string }
    var code: String? { json["code"]?.string }
  }

  let clock: Clock
  let wire: Wire
  let accounts: Accounts
  let devices: Devices
  let eventNotifier: EventNotifier
  let notifier: Notifier
  let realm: ChatRealm
  /// On the same database, as another node has them: nobody here hears of what they do.
  let elsewhere: Devices
  private let client: any TestClientProtocol

  private init(
    _ parts: (Clock, Wire, Accounts, Devices, EventNotifier, Notifier, ChatRealm), elsewhere: Devices,
    client: any TestClientProtocol
  ) {
    self.elsewhere = elsewhere
    (clock, wire, accounts, devices, eventNotifier, notifier, realm) = parts
    self.client = client
  }

  /// Runs a test.
  static func test(
    bouncer isThere: Bool = true, perUser: RateLimit? = nil,
    _ test: @escaping @Sendable (Chat) async throws -> Void
  ) async throws {
    let testDatabase = try await TestDatabase()
    defer { withExtendedLifetime(testDatabase) {} }
    let database = testDatabase.database
    let (clock, wire, eventNotifier) = (Clock(), Wire(), EventNotifier())
    let now: @Sendable () -> Date = { clock.now }
    let storageKey = StorageKey(bytes: [UInt8](repeating: 5, count: 32))
    let accounts = Accounts(database: database, storageKey: storageKey, now: now)
    let devices = Devices(
      database: database, storageKey: storageKey, localServer: nil, now: now, changed: eventNotifier.ring)
    let elsewhere = Devices(
      database: database, storageKey: storageKey, localServer: nil, now: now, changed: { _ in })
    var logger = Logger(label: "test")
    logger.logLevel = .critical
    let client = BouncerClient(transport: wire.call)
    let realms = RealmUpload(accounts: accounts, bouncer: client, logger: logger)
    let registrar = Registrar(
      devices: devices, bouncer: client, realms: realms, now: now,
      mayExpire: { clock.isTrusted }, logger: logger)
    let unregistrar = LegacyUnregistrar(
      tokens: devices.legacyTokens, bouncer: client, now: now, logger: logger)
    let notifier = Notifier(devices: devices, bouncer: isThere ? (client, realms) : nil)
    let realm = try await accounts.put(
      realm: UUID(), name: "Zulip Dev", url: "https://chat.example.org", requiresE2EE: nil
    ).realm
    let server = ZulipServer(
      configuration: .init(rateLimitPerUser: perUser, maximumBodyBytes: 1 << 20),
      dependencies: .init(
        accounts: accounts, devices: devices, eventNotifier: eventNotifier,
        registrar: isThere ? registrar : nil,
        unregistrar: isThere ? unregistrar : nil, notifier: notifier,
        now: now))
    let router = Router(context: WireContext.self)
    router.add(
      middleware: EnvelopeMiddleware(trustedProxies: [ClientAddress.Network("127.0.0.1")].compactMap(\.self)))
    server.addRoutes(to: router)
    // Long polls and the registrar run beside each other: a real listener.
    let application = Application(router: router, logger: logger)
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { await registrar.run() }
      group.addTask { await realms.run() }
      group.addTask { await unregistrar.run() }
      try await application.test(.live) { client in
        try await test(
          Chat(
            (clock, wire, accounts, devices, eventNotifier, notifier, realm), elsewhere: elsewhere,
            client: client))
        eventNotifier.close()
      }
      group.cancelAll()
    }
    await database.close()
  }

  /// A user with a key of its own.
  func user(_ name: String = "iago", id: Int64 = 10) async throws -> Client {
    let (user, key, _) = try await accounts.put(
      .init(email: "\(name)@example.org"), userID: id, realm: realm.uuid)
    return Client(chat: self, user: user, key: try #require(key))
  }

  /// A call with any headers.
  func call(
    _ method: HTTPRequest.Method, _ path: String, form: [(String, String)] = [],
    authorization: String? = nil
  ) async throws -> Answer {
    var headers: HTTPFields = [:]
    headers[.authorization] = authorization
    var uri = path
    var body: ByteBuffer?
    let encoded = Form.encode(form.map { ($0, $1) })
    if method == .get {
      if !encoded.isEmpty { uri += "?" + String(decoding: encoded, as: UTF8.self) }
    } else {
      headers[.contentType] = "application/x-www-form-urlencoded"
      body = ByteBuffer(bytes: encoded)
    }
    return try await client.execute(uri: uri, method: method, headers: headers, body: body) { response in
      Answer(
        status: response.status.code, headers: response.headers,
        json: (try? JSON.parse(response.body)) ?? .string(String(buffer: response.body)))
    }
  }
}

/// A client of a user, as an app is one.
struct Client: Sendable {
  let chat: Chat
  let user: User
  let key: String

  @discardableResult
  func call(_ method: HTTPRequest.Method, _ endpoint: String, _ form: (String, String)...) async throws
    -> Chat.Answer
  {
    try await call(method, endpoint, form)
  }

  func call(_ method: HTTPRequest.Method, _ endpoint: String, _ form: [(String, String)]) async throws
    -> Chat.Answer
  {
    let credentials = Base64.encode(Array("\(user.email):\(key)".utf8))
    return try await chat.call(
      method, "/api/v1/\(endpoint)", form: form, authorization: "Basic \(credentials)")
  }

  func addDevice() async throws -> String {
    "\(try #require(try await call(.post, "register_client_device").json["device_id"]?.integer))"
  }

  /// Registers key and token, as on the first start.
  @discardableResult
  func register(
    _ device: String, key: PushKey = .generate(), keyID: UInt32 = 10, token: String = "token",
    kind: String = "fcm"
  ) async throws -> Chat.Answer {
    try await call(
      .post, "mobile_push/register",
      [
        ("device_id", device), ("push_key", key.base64), ("push_key_id", "\(keyID)"), ("token_kind", kind),
        ("token_id", TokenID(token: token).base64), ("bouncer_public_key", "public"),
        ("encrypted_push_registration", "sealed"),
      ])
  }

  /// Waits until the device's state is so.
  func waitUntil(
    _ device: String, _ what: String, sourceLocation: SourceLocation = #_sourceLocation,
    _ condition: (Device.State) async throws -> Bool
  ) async throws {
    let end = ContinuousClock.now + .seconds(60)
    while ContinuousClock.now < end {
      let devices = try await chat.devices.snapshot(user: user.id).devices
      if let found = devices.first(where: { "\($0.id)" == device }), try await condition(found.state) {
        return
      }
      try await Task.sleep(for: .milliseconds(10))
    }
    Issue.record("\(what): did not happen in time", sourceLocation: sourceLocation)
  }
}
