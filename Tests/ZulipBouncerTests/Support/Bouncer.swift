import Delivery
import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Logging
import NIOCore
import Providers
import Registrations
import SQL
import Sealing
import Synchronization
import TestDatabase
import Testing
import Wire
import ZulipBouncer

/// A bouncer on a database of its own, called as a chat server calls it.
final class Bouncer: Sendable {
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
    func set(_ date: Date) { time.withLock { $0 = date } }
  }

  let clock: Clock
  let database: any Database
  let storageKey = StorageKey(bytes: [UInt8](repeating: 9, count: 32))
  let servers: RemoteServers
  let analytics: Analytics
  let registrations: E2EERegistrations
  let requestTimes: RequestTimes
  let recorder: OutcomeRecorder
  let keys: BouncerKeys
  let keyPair: BouncerKeyPair
  let providers: PushProviders
  private let client: any TestClientProtocol

  private init(client: any TestClientProtocol, parts: Parts) {
    self.client = client
    clock = parts.clock
    database = parts.database
    servers = parts.servers
    analytics = parts.analytics
    registrations = parts.registrations
    requestTimes = parts.requestTimes
    let clock = clock
    recorder = OutcomeRecorder(database: database, now: { clock.now })
    keys = BouncerKeys(database: database, now: { clock.now })
    keyPair = parts.keyPair
    providers = parts.providers
  }

  private struct Parts {
    let clock = Clock()
    let keyPair = BouncerKeyPair()
    let test: TestDatabase
    let database: any Database
    let servers: RemoteServers
    let analytics: Analytics
    let registrations: E2EERegistrations
    let requestTimes: RequestTimes
    let providers: PushProviders
    let bouncer: ZulipBouncer

    init(
      providers configuration: PushProviders.Configuration,
      _ configure: (inout ZulipBouncer.Configuration) throws -> Void
    ) async throws {
      test = try await TestDatabase()
      database = PatientDatabase(test.database)
      let storageKey = StorageKey(bytes: [UInt8](repeating: 9, count: 32))
      let now: @Sendable () -> Date = { [clock] in clock.now }
      servers = RemoteServers(database: database, storageKey: storageKey, now: now)
      analytics = Analytics(database: database, storageKey: storageKey, now: now)
      registrations = E2EERegistrations(database: database, storageKey: storageKey, now: now)
      requestTimes = RequestTimes(database: database, now: now)
      providers = try PushProviders(configuration: configuration)
      var logger = Logger(label: "test")
      logger.logLevel = .critical
      let known = BouncerKeyring.Entry(pair: keyPair, state: .active)
      // The key pair of the vectors in Documentation/Protocols/Zulip.md 12.
      let vector = BouncerKeyPair(privateKey: "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").map {
        BouncerKeyring.Entry(pair: $0, state: .retired)
      }
      let ring = BouncerKeyring([known] + (vector.map { [$0] } ?? []))
      var settings = ZulipBouncer.Configuration(publicURL: { "https://push.example.org" })
      try configure(&settings)
      bouncer = ZulipBouncer(
        configuration: settings,
        dependencies: .init(
          servers: servers, realms: RemoteRealms(database: database), analytics: analytics,
          registrations: registrations,
          legacy: LegacyRegistrations(database: database, storageKey: storageKey, now: now),
          bouncerKeys: BouncerKeys(database: database, now: now),
          requestTimes: requestTimes,
          deliverer: Deliverer(
            providers: providers, registrations: OutcomeRecorder(database: database, now: now),
            outbox: Outbox(database: database, storageKey: storageKey, maxAge: 86_400, now: now),
            deadline: .seconds(10), now: now, logger: logger),
          keyring: { ring }, storageKey: storageKey, now: now,
          mayExpire: { [clock] in clock.isTrusted }, logger: logger))
    }
  }

  /// Runs a test against a bouncer.
  static func test(
    _ configure: (inout ZulipBouncer.Configuration) throws -> Void = { _ in },
    providers configuration: PushProviders.Configuration = .init(), live: Bool = false,
    _ test: @escaping @Sendable (Bouncer) async throws -> Void
  ) async throws {
    let parts = try await Parts(providers: configuration, configure)
    defer { withExtendedLifetime(parts.test) {} }
    let router = Router(context: WireContext.self)
    router.add(
      middleware: EnvelopeMiddleware(trustedProxies: [ClientAddress.Network("127.0.0.1")].compactMap(\.self)))
    parts.bouncer.addRoutes(to: router)
    var logger = Logger(label: "test")
    logger.logLevel = .critical
    let application = Application(
      router: router, configuration: .init(address: .hostname("127.0.0.1", port: 0)), logger: logger)
    try await application.test(live ? .live : .router) { client in
      try await test(Bouncer(client: client, parts: parts))
    }
    await parts.providers.shutdown()
    await parts.database.close()
  }
}

/// An answer as a chat server reads it.
struct Answer {
  let status: Int
  let headers: HTTPFields
  let text: String

  var json: JSON { (try? JSON.parse(text)) ?? .null }
  var message: String? { json["msg"]?.string }
  var code: String? { json["code"]?.string }
  var isSuccess: Bool { status == 200 && json["result"]?.string == "success" }
}

/// What a server signs in with.
struct Credentials {
  var id: String
  var key: String

  var header: String { "Basic " + Base64.encode("\(id):\(key)".utf8) }
}

extension Bouncer {
  /// Calls an endpoint below `/api/v1/remotes/`.
  func call(
    _ endpoint: String, _ method: HTTPRequest.Method = .post, authorization: String? = nil,
    type: String? = nil, from address: String? = nil,
    body: [UInt8] = []
  ) async throws -> Answer {
    var headers: HTTPFields = [:]
    headers[.xForwardedFor] = address
    headers[.authorization] = authorization
    headers[.contentType] = type
    let response = try await client.executeRequest(
      uri: "/api/v1/remotes/\(endpoint)", method: method, headers: headers, body: ByteBuffer(bytes: body))
    return Answer(
      status: Int(response.status.code), headers: response.headers, text: String(buffer: response.body))
  }

  /// Calls an endpoint with a form.
  func post(_ endpoint: String, _ form: [(String, String)], as server: Credentials? = nil) async throws
    -> Answer
  {
    try await call(
      endpoint, authorization: server?.header, type: "application/x-www-form-urlencoded",
      body: Array(form.map { "\(escape($0))=\(escape($1))" }.joined(separator: "&").utf8))
  }

  /// Calls an endpoint with a JSON body.
  func post(_ endpoint: String, json: JSON, as server: Credentials) async throws -> Answer {
    try await call(endpoint, authorization: server.header, type: "application/json", body: json.bytes)
  }

  private func escape(_ text: String) -> String {
    text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
  }

  /// A server that may call.
  func server(_ hostname: String = "chat.example.org") async throws -> Credentials {
    let (server, key) = try await servers.add(
      hostname: try Hostname(hostname), uuid: try Self.version4(), contactEmail: "admin@example.org")
    return Credentials(id: server.uuid.uuidString.lowercased(), key: key)
  }

  /// Tells the bouncer of a realm of a server.
  func realm(of server: Credentials, uuid: String? = nil) async throws -> String {
    let uuid = try uuid ?? Self.version4().uuidString.lowercased()
    let answer = try await post("server/analytics", analytics([realmJSON(uuid)]), as: server)
    guard answer.isSuccess else { throw CocoaError(.fileReadUnknown) }
    return uuid
  }

  /// Foundation makes UUIDs of version 4.
  static func version4() throws -> UUID { UUID() }

  /// The form of an upload of nothing but realms.
  func analytics(_ realms: [JSON]) -> [(String, String)] {
    [("realm_counts", "[]"), ("installation_counts", "[]"), ("realms", JSON.array(realms).text)]
  }

  /// A realm as a stock server describes it.
  func realmJSON(_ uuid: String) -> JSON {
    [
      "id": 2, "uuid": .string(uuid), "uuid_owner_secret": "zuliprealm_abc", "host": "chat.example.org",
      "url": "https://chat.example.org", "name": "Example", "org_type": 10,
      "date_created": .number("1600000000.5"),
      "deactivated": false, "is_system_bot_realm": false,
      "authentication_methods": ["Email": true, "Dev": false],
    ]
  }

  /// All that is stored.
  func dump() async throws -> [String: [[Value]]] {
    let tables = [
      "remote_servers", "remote_server_audit_log", "remote_realms", "remote_realm_audit_log",
      "remote_realm_counts",
      "remote_installation_counts", "e2ee_registrations",
    ]
    return try await database.read { connection in
      var dump: [String: [[Value]]] = [:]
      for table in tables {
        dump[table] = try connection.query(Statement("SELECT * FROM \(table)")).map(\.values)
      }
      return dump
    }
  }

  /// What a phone seals.
  func sealed(_ json: JSON) throws -> String {
    Base64.encode(try #require(SealedBox.seal(json.bytes, to: keyPair.publicKey)))
  }

  /// The registration of an APNs token, made now.
  func apns(_ token: String = "c0ffee") -> JSON {
    [
      "token": .string(token), "token_kind": "apns",
      "timestamp": .integer(Int64(clock.now.timeIntervalSince1970)),
      "ios_app_id": "example.app",
    ]
  }

  /// The registration of an FCM token, made now.
  func fcm(_ token: String = "android-token") -> JSON {
    [
      "token": .string(token), "token_kind": "fcm",
      "timestamp": .integer(Int64(clock.now.timeIntervalSince1970)),
    ]
  }

  /// The form of `push/e2ee/register`.
  func registerForm(realm: String, _ registration: JSON) throws -> [(String, String)] {
    [
      ("realm_uuid", realm), ("token_id", TokenID(token: registration["token"]?.string ?? "").base64),
      ("encrypted_push_registration", try sealed(registration)),
      ("bouncer_public_key", keyPair.publicKeyBase64),
    ]
  }
}
