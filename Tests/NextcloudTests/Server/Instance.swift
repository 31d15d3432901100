import Accounts
import AsyncHTTPClient
import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Logging
import NIOCore
import Registrations
import SQL
import Sealing
import Synchronization
import TestDatabase
import Testing
import Wire
import ZulipServer

@testable import NextcloudServer

/// A Nextcloud server side on a database of its own, called as apps call it.
struct Instance: Sendable {
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

  struct Answer: Sendable {
    let status: Int
    let headers: HTTPFields
    let body: String

    var json: JSON { (try? JSON.parse(body)) ?? .null }
    var meta: JSON? { json["ocs"]?["meta"] }
    var data: JSON? { json["ocs"]?["data"] }
    var code: String? { data?["message"]?.string }
  }

  let test: TestDatabase
  let clock: Clock
  let storageKey: StorageKey
  let accounts: Accounts
  let devices: Devices
  let loginFlows: NextcloudLoginFlows
  let keys: NextcloudKeys
  let registrations: NextcloudRegistrations
  let notifications: NextcloudNotifications
  let pushes: NextcloudPushes
  let outgoing: OutgoingClient
  let settings: NextcloudSender.Configuration
  let sender: NextcloudSender
  let realm: ChatRealm
  private let client: any TestClientProtocol

  var database: any Database { test.database }

  private static let url = "https://cloud.example.org/nextcloud/"

  /// Runs a test.
  static func test(
    allowsLocalProxies: Bool = false, perUser: RateLimit? = nil, perAddress: RateLimit? = nil,
    defaultProxy: String = "https://push.default.example.org/", bodies: BodyBudget? = nil,
    settings change: (inout NextcloudSender.Configuration) -> Void = { _ in },
    _ test: @escaping @Sendable (Instance) async throws -> Void
  ) async throws {
    let testDatabase = try await TestDatabase()
    let clock = Clock()
    let now: @Sendable () -> Date = { clock.now }
    let database = testDatabase.database
    let storageKey = StorageKey(bytes: [UInt8](repeating: 5, count: 32))
    let accounts = Accounts(database: database, storageKey: storageKey, now: now)
    var settings = NextcloudSender.Configuration(
      padding: .oaep, defaultProxy: { defaultProxy }, allowsLocalProxies: allowsLocalProxies,
      subscriptionServer: "https://push-notifications.nextcloud.com", subscriptionKey: nil,
      deadline: .seconds(10), maximumAge: 86_400)
    change(&settings)
    let finalSettings = settings
    let loginFlows = NextcloudLoginFlows(accounts: accounts)
    let keys = NextcloudKeys(database: database, storageKey: storageKey, now: now)
    let registrations = NextcloudRegistrations(database: database, now: now)
    let notifications = NextcloudNotifications(database: database, storageKey: storageKey, now: now)
    let pushes = NextcloudPushes(database: database, now: now, mayExpire: { clock.isTrusted })
    let outgoing = OutgoingClient(configuration: .init()) { IPAddress($0)?.isPublic == true }
    let sender = Self.sender(
      settings, database: database, storageKey: storageKey, client: outgoing, now: now)
    let server = NextcloudServer(
      configuration: .init(
        name: "Cloud & Co", url: url, address: { "https://cloud.example.org/nextcloud" },
        defaultProxy: { defaultProxy }, allowsLocalProxies: allowsLocalProxies,
        rateLimitPerUser: perUser, rateLimitPerAddress: perAddress, maximumBodyBytes: 1 << 20),
      dependencies: .init(
        accounts: accounts, loginFlows: loginFlows, keys: keys, registrations: registrations,
        notifications: notifications, sender: sender, now: now))
    let router = Router(context: WireContext.self)
    router.add(
      middleware: EnvelopeMiddleware(
        trustedProxies: [ClientAddress.Network("127.0.0.1")].compactMap(\.self), bodies: bodies))
    server.addRoutes(to: router)
    let realm = try await accounts.put(
      realm: UUID(), name: "Cloud", url: "https://cloud.example.org", requiresE2EE: nil
    ).realm
    try await Application(router: router, logger: .quiet).test(.router) { client in
      try await test(
        Instance(
          test: testDatabase, clock: clock, storageKey: storageKey, accounts: accounts,
          devices: Devices(
            database: database, storageKey: storageKey, localServer: nil, now: now, changed: { _ in }),
          loginFlows: loginFlows, keys: keys, registrations: registrations, notifications: notifications,
          pushes: pushes,
          outgoing: outgoing,
          settings: finalSettings,
          sender: sender, realm: realm, client: client))
    }
    await outgoing.shutdown()
    await database.close()
  }

  private static func sender(
    _ settings: NextcloudSender.Configuration, database: any Database, storageKey: StorageKey,
    client: OutgoingClient, now: @escaping @Sendable () -> Date
  ) -> NextcloudSender {
    NextcloudSender(
      configuration: settings,
      dependencies: .init(
        keys: NextcloudKeys(database: database, storageKey: storageKey, now: now),
        registrations: NextcloudRegistrations(database: database, now: now),
        notifications: NextcloudNotifications(database: database, storageKey: storageKey, now: now),
        pushes: NextcloudPushes(database: database, now: now), client: client, now: now),
      logger: .quiet)
  }

  /// Another sender on the same database, as another node or a later run has it.
  func anotherSender() -> NextcloudSender {
    Self.sender(
      settings, database: database, storageKey: storageKey, client: outgoing, now: { [clock] in clock.now })
  }

  /// A user with an app password.
  func user(_ name: String = "alice", id: Int64 = 10) async throws -> SignedIn {
    let (user, key, _) = try await accounts.put(
      .init(email: "\(name)@example.org"), userID: id, realm: realm.uuid)
    return try await app(of: user, apiKey: try #require(key))
  }

  /// An app of a user, with an app password of its own.
  func app(of user: User, apiKey: String = "") async throws -> SignedIn {
    let (id, password) = try await accounts.addAppPassword(name: "Phone", user: user.id)
    return SignedIn(instance: self, user: user, apiKey: apiKey, appPassword: id, password: password)
  }

  func call(
    _ method: HTTPRequest.Method, _ path: String, form: [(String, String)]? = nil, json: String? = nil,
    headers: HTTPFields = [:], isOCS: Bool = true, format: String? = "json",
    base: String = "/ocs/v2.php"
  ) async throws -> Answer {
    var headers = headers
    if isOCS { headers[.ocsAPIRequest] = "true" }
    var body: ByteBuffer?
    if let form {
      headers[.contentType] = headers[.contentType] ?? "application/x-www-form-urlencoded"
      body = ByteBuffer(bytes: Form.encode(form.map { ($0, $1) }))
    } else if let json {
      headers[.contentType] = headers[.contentType] ?? "application/json"
      body = ByteBuffer(string: json)
    }
    let uri = "\(base)/\(path)" + (format.map { "?format=\($0)" } ?? "")
    return try await client.execute(uri: uri, method: method, headers: headers, body: body) { response in
      Answer(
        status: response.status.code, headers: response.headers, body: String(buffer: response.body))
    }
  }

  /// Waits until the condition holds; fails the test after a generous time.
  func eventually(
    _ what: String, sourceLocation: SourceLocation = #_sourceLocation, _ condition: () async throws -> Bool
  ) async throws {
    let end = ContinuousClock.now + .seconds(20)
    while ContinuousClock.now < end {
      if try await condition() { return }
      try await Task.sleep(for: .milliseconds(5))
    }
    Issue.record("\(what): did not happen in time", sourceLocation: sourceLocation)
  }
}

extension Logger {
  /// One that says nothing.
  static var quiet: Logger {
    var logger = Logger(label: "test")
    logger.logLevel = .critical
    return logger
  }
}

/// An app that has signed in.
struct SignedIn: Sendable {
  static let talk = "Mozilla/5.0 (Android) Nextcloud-Talk v20.0.0"
  static let push = "apps/notifications/api/v2/push"
  static let draft = "apps/notifications/api/v3/push"

  let instance: Instance
  let user: User
  let apiKey: String
  let appPassword: Int64
  let password: String

  static func basic(_ login: String, _ password: String) -> String {
    "Basic \(Base64.encode(Array("\(login):\(password)".utf8)))"
  }

  func headers(_ userAgent: String? = nil) -> HTTPFields {
    var headers: HTTPFields = [.authorization: Self.basic(user.username, password)]
    headers[.userAgent] = userAgent
    return headers
  }

  func call(
    _ method: HTTPRequest.Method, _ path: String, _ form: [(String, String)]? = nil,
    json: String? = nil, userAgent: String? = nil, base: String = "/ocs/v2.php"
  ) async throws -> Instance.Answer {
    try await instance.call(method, path, form: form, json: json, headers: headers(userAgent), base: base)
  }

  /// What a phone sends to register.
  static func form(
    token: String = "token", proxy: String = "https://push.example.org", key: String? = nil
  ) throws -> [(String, String)] {
    [
      ("pushTokenHash", hash(token)), ("devicePublicKey", try key ?? Vectors.load().devicePublicKey),
      ("proxyServer", proxy),
    ]
  }

  static func hash(_ token: String) -> String {
    SHA512Hex.of(token)
  }

  /// Registers for pushes.
  @discardableResult
  func register(
    token: String? = nil, proxy: String = "https://push.example.org", key: String? = nil,
    userAgent: String? = nil
  ) async throws -> Instance.Answer {
    try await call(
      .post, Self.push, Self.form(token: token ?? "token-\(appPassword)", proxy: proxy, key: key),
      userAgent: userAgent)
  }

  /// Its registration as it is kept.
  func registration() async throws -> NextcloudRegistration? {
    try await instance.registrations.find(appPassword: appPassword)
  }
}
