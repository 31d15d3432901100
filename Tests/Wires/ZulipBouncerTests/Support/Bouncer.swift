import Foundation
import HTTP
import HTTPTypes
import Logging
import Providers
import Registrations
import SQL
import Sealing
import Server
import TestService
import TestSupport
import Testing

@testable import Basics
@testable import HTTPClient
@testable import Operator
@testable import ZulipBouncer

/// The service, called as a chat server calls its bouncer.
struct Bouncer: Sendable {
  let test: TestService
  let keyPair: BouncerKeyPair

  var clock: TestClock { test.clock }
  var database: any Database { test.service.store.database }
  var parts: ZulipBouncer.Bouncer { test.service.bouncer }
  var servers: RemoteServers { parts.servers }
  var registrations: RegistrationStore { parts.registrations }
  var recorder: RegistrationStore { test.service.store.registrations }
  var requestTimes: RequestTimes { parts.requestTimes }
  var providers: PushProviders { test.service.providers }
  var keys: BouncerKeys { parts.bouncerKeys }

  /// Runs a test against a bouncer.
  static func test(
    _ settings: [String: String] = [:], clock: TestClock = TestClock(), isWorking: Bool = false,
    isLive: Bool = false, logger: Logger = .quiet,
    keys: (_ folder: URL) throws -> Void = { _ in },
    adjust: (inout ZulipBouncer.Bouncer) -> Void = { _ in },
    _ test: @escaping @Sendable (Bouncer) async throws -> Void
  ) async throws {
    let defaults = [
      "server.bouncer": "off", "delivery.deadline": "10s", "http.public_url": "https://push.example.org",
    ]
    try await TestService.run(
      defaults.merging(settings) { $1 }, clock: clock, isWorking: isWorking, isLive: isLive, logger: logger,
      keys: { folder in
        try writeVector(to: folder)
        try keys(folder)
      }, adjust: adjust
    ) { service in
      let files = BouncerKeyFiles(directory: service.configuration.keys.directory)
      let key = try #require(try files.list().first { $0.state == .active })
      try await test(Bouncer(test: service, keyPair: key.pair))
    }
  }

  /// The key pair of the vectors in Documentation/Protocols/Zulip.md 12.
  private static func writeVector(to folder: URL) throws {
    let pair = try #require(BouncerKeyPair(privateKey: "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="))
    let json: JSON = [
      "public_key": .string(pair.publicKeyBase64), "private_key": .string(pair.privateKeyBase64),
      "created_at": "2025-08-05T00:00:00Z", "state": "retired",
    ]
    _ = FileManager.default.createFile(
      atPath: folder.appending(path: "bouncer/vector.json").path, contents: Data(json.bytes),
      attributes: [.posixPermissions: 0o600])
  }
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
    return try await test.call(method, "/api/v1/remotes/\(endpoint)", headers: headers, body: body)
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
      hostname: try Hostname(hostname), contactEmail: "admin@example.org")
    return Credentials(id: server.uuid.uuidString.lowercased(), key: key)
  }

  /// The same as the bouncer knows it.
  func remote(_ hostname: String = "chat.example.org") async throws -> RemoteServer {
    _ = try await server(hostname)
    return try #require(try await servers.find(hostname: hostname))
  }

  /// Tells the bouncer of a realm of a server.
  func realm(of server: Credentials, uuid: String? = nil) async throws -> String {
    let uuid = uuid ?? UUID().uuidString.lowercased()
    let answer = try await post("server/analytics", analytics([realmJSON(uuid)]), as: server)
    guard answer.isSuccess else { throw CocoaError(.fileReadUnknown) }
    return uuid
  }

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

  /// The instruction in the error for a server that names another server's realm.
  static func gettingBack(_ realm: String) -> String {
    """
    If that is this server under another hostname, run: manage.py register_server --registration-transfer. If not, the \
    operator of this push notification service can let it go: push-bouncer server release-realm \(realm)
    """
  }

  /// All that is stored.
  func dump() async throws -> [String: [[Value]]] {
    let tables = [
      "remote_servers", "remote_server_audit_log", "remote_realms", "remote_realm_audit_log",
      "remote_realm_counts",
      "remote_installation_counts", "registrations",
    ]
    return try await database.read { connection in
      var dump: [String: [[Value]]] = [:]
      for table in tables {
        dump[table] = try connection.query(Statement("SELECT * FROM \(table)")).map(\.values)
      }
      return dump
    }
  }

  /// The registration that a phone seals.
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

/// Items of `push/e2ee/notify`, and its body.
enum PushItem {
  static func apns(_ token: String) -> JSON {
    [
      "token_id": .string(TokenID(token: token).base64),
      "http_headers": ["apns_priority": 10, "apns_push_type": "alert"],
      "payload": [
        "push_key_id": 10, "encrypted_data": "AAAA",
        "aps": ["mutable-content": 1, "alert": ["title": "New notification"]],
      ],
    ]
  }

  static func fcm(_ token: String) -> JSON {
    [
      "token_id": .string(TokenID(token: token).base64), "fcm_priority": "high",
      "payload": ["push_key_id": 20, "encrypted_data": "BBBB"],
    ]
  }

  static func body(_ realm: String, _ items: [JSON]) -> JSON {
    ["realm_uuid": .string(realm), "push_requests": .array(items), "more": true]
  }
}

extension Trait where Self == Fixture<Bouncer> {
  /// A bouncer of the test's own.
  static func bouncer(_ settings: [String: String] = [:]) -> Self {
    Fixture { try await Bouncer.test(settings, $0) }
  }
}
