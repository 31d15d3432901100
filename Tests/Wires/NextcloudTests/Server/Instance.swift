import Foundation
import HTTP
import HTTPTypes
import SQL
import Sealing
import TestService
import TestSupport
import Testing

@testable import NextcloudServer
@testable import Registrations
@testable import Server

/// The service, called as Nextcloud's apps call it.
struct Instance: Sendable {
  struct Answer: Sendable {
    let status: Int
    let headers: HTTPFields
    let body: String

    var json: JSON { (try? JSON.parse(body)) ?? .null }
    var meta: JSON? { json["ocs"]?["meta"] }
    var data: JSON? { json["ocs"]?["data"] }
    var code: String? { data?["message"]?.string }
  }

  let test: TestService
  let sender: NextcloudSender
  let realm: ChatRealm

  var clock: TestClock { test.clock }
  var database: any Database { test.service.store.database }
  var storageKey: StorageKey { test.service.store.storageKey }
  var accounts: AccountStore { test.service.store.accounts }
  var loginFlows: NextcloudLoginFlows { NextcloudLoginFlows(accounts: accounts) }
  var notifications: NextcloudNotifications { sender.notifications }
  var keys: NextcloudKeys { sender.keys }
  var registrations: NextcloudRegistrations { sender.registrations }
  var pushes: NextcloudPushes { sender.pushes }

  /// Phones may name proxies of this machine.
  static let localProxies = ["nextcloud.allow_local_proxies": "true"]

  /// Runs a test.
  static func test(
    _ settings: [String: String] = [:], clock: TestClock = TestClock(), isWorking: Bool = false,
    bodies: BodyBudget? = nil,
    _ test: @escaping @Sendable (Instance) async throws -> Void
  ) async throws {
    let defaults = [
      "nextcloud.enabled": "true", "nextcloud.url": "https://cloud.example.org/nextcloud",
      "nextcloud.default_proxy": "https://push.default.example.org/", "server.name": "Cloud & Co",
      "server.bouncer": "off", "server.rate_limit.per_user": "0", "http.rate_limit.per_address": "0",
      "delivery.deadline": "10s",
    ]
    try await TestService.run(
      defaults.merging(settings) { $1 }, clock: clock, isWorking: isWorking, bodies: bodies
    ) { service in
      let realm = try await service.service.store.accounts.put(
        realm: UUID(), name: "Cloud", url: "https://cloud.example.org", requiresE2EE: nil
      ).realm
      try await test(
        Instance(test: service, sender: try #require(service.service.nextcloudServer?.sender), realm: realm))
    }
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
    var body: [UInt8] = []
    if let form {
      headers[.contentType] = headers[.contentType] ?? "application/x-www-form-urlencoded"
      body = Form.encode(form.map { ($0, $1) })
    } else if let json {
      headers[.contentType] = headers[.contentType] ?? "application/json"
      body = Array(json.utf8)
    }
    let uri = "\(base)/\(path)" + (format.map { "?format=\($0)" } ?? "")
    let answer = try await test.call(method, uri, headers: headers, body: body)
    return Answer(status: answer.status, headers: answer.headers, body: answer.text)
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

  /// Its stored registration.
  func registration() async throws -> NextcloudRegistration? {
    try await instance.registrations.find(appPassword: appPassword)
  }
}

extension Trait where Self == Fixture<Instance> {
  /// A server of the test's own.
  static var instance: Self { Fixture { try await Instance.test([:], $0) } }
}
