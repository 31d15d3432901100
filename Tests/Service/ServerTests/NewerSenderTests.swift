import Crypto
import Foundation
import HTTP
import HTTPTypes
import ProviderSimulator
import Registrations
import Sealing
import Synchronization
import TestService
import TestSupport
import Testing

@testable import Basics
@testable import HTTPClient
@testable import Operator
@testable import Server

/// Senders that are newer than this program: to every request of every wire something is added that is not known here.
@Suite struct NewerSenderTests {
  /// A part of a body; what is JSON gets additions inside.
  enum Part: Sendable {
    case text(String)
    case json(JSON)
    /// A registration, which its phone seals.
    case sealed(JSON)
  }

  enum Body: Sendable {
    case form([(String, Part)])
    case json(JSON)
    case none
  }

  struct Call: CustomTestStringConvertible, Sendable {
    let method: HTTPRequest.Method
    let path: String
    /// Values of enumerations that a newer sender may know, by the members that have them.
    let values: [(member: String, value: JSON)]
    let status: Int
    let body: @Sendable (Ground) async throws -> Body

    init(
      _ method: HTTPRequest.Method, _ path: String, status: Int = 200,
      values: [(member: String, value: JSON)] = [],
      _ body: @escaping @Sendable (Ground) async throws -> Body = { _ in .none }
    ) {
      (self.method, self.path, self.status, self.values, self.body) = (method, path, status, values, body)
    }

    var testDescription: String { "\(method) \(path)" }
  }

  // MARK: The wires

  private static let realm = "aa9c4b3e-5b6c-4d0f-8a7b-0123456789ab"
  private static let user = "bb9c4b3e-5b6c-4d0f-8a7b-0123456789ab"
  private static let token = String(repeating: "0123456789abcdef", count: 4)
  private static let (email, apiKey) = ("iago@example.org", "AbCdEfGhIjKlMnOpQrStUvWxYz012345")
  private static let (apns, fcm) = ("c0ffee", "android-token")
  private static let key = RSAPrivateKey.generate()

  private static let realmItem: JSON = [
    "id": 2, "uuid": .string(realm), "uuid_owner_secret": "zuliprealm_abc", "host": "chat.example.org",
    "url": "https://chat.example.org", "name": "Example", "org_type": 10,
    "date_created": .number("1600000000.5"), "deactivated": false, "is_system_bot_realm": false,
    "authentication_methods": ["Email": true, "Dev": false],
  ]

  private static func item(_ token: String, _ more: JSON.Object, _ payload: JSON.Object = [:]) -> JSON {
    var item = more
    item["token_id"] = .string(TokenID(token: token).base64)
    var payload = payload
    (payload["push_key_id"], payload["encrypted_data"]) = (10, "AAAA")
    item["payload"] = .object(payload)
    return .object(item)
  }

  private static func registration(_ ground: Ground, _ token: String, _ kind: String) -> Body {
    var json: JSON.Object = [
      "token": .string(token), "token_kind": .string(kind),
      "timestamp": .integer(Int64(ground.test.clock.now.timeIntervalSince1970)),
    ]
    if kind == "apns" { json["ios_app_id"] = "example.app" }
    return .form([
      ("realm_uuid", .text(realm)), ("token_id", .text(TokenID(token: token).base64)),
      ("bouncer_public_key", .text(ground.bouncerKey.publicKeyBase64)),
      ("encrypted_push_registration", .sealed(.object(json))),
    ])
  }

  private static let legacy: [(String, Part)] = [
    ("user_id", .text("10")), ("user_uuid", .text(user)), ("realm_uuid", .text(realm)),
    ("token", .text("legacy-token")), ("token_kind", .text("2")),
  ]

  /// In this order: some need what others have left.
  static let zulipBouncer: [Call] = [
    Call(.post, "/api/v1/remotes/server/register") { ground in
      .form([
        ("zulip_org_id", .text(ground.id)), ("zulip_org_key", .text(ground.key)),
        ("hostname", .text("chat.example.org")), ("contact_email", .text("admin@example.org")),
      ])
    },
    Call(.post, "/api/v1/remotes/server/register/transfer") { _ in
      .form([("hostname", .text("chat.example.org"))])
    },
    Call(.post, "/api/v1/remotes/server/register/verify_challenge", status: 400) { _ in
      .form([("hostname", .text("nobody.example.org")), ("access_token", .text("a"))])
    },
    Call(.get, "/api/v1/remotes/server/analytics/status"),
    Call(
      .post, "/api/v1/remotes/server/analytics",
      values: [("org_type", 5), ("property", "invented::day"), ("event_type", 999)]
    ) { ground in
      let id = ground.next()
      return .form([
        (
          "realm_counts",
          .json([
            [
              "id": .integer(id), "realm": 2, "property": "messages_sent:is_bot:hour", "subgroup": "false",
              "end_time": 1, "value": 3,
            ]
          ])
        ),
        (
          "installation_counts",
          .json([
            [
              "id": .integer(id), "property": "messages_read::hour", "subgroup": nil, "end_time": 1,
              "value": 3,
            ]
          ])
        ),
        (
          "realmauditlog_rows",
          .json([
            [
              "id": .integer(id), "realm": 2, "event_type": 101, "event_time": 1, "backfilled": false,
              "extra_data": ["10": ["11": 1]],
            ]
          ])
        ),
        ("realms", .json([realmItem])), ("version", .text(#""13.0""#)), ("merge_base", .text(#""13.0""#)),
        ("api_feature_level", .text("600")),
      ])
    },
    Call(
      .post, "/api/v1/remotes/server/billing",
      values: [("org_type", 5), ("uri_scheme", "h3://"), ("next_page", "x")]
    ) { _ in
      .form([
        ("user", .json(["uuid": .string(user), "email": "a@example.org", "full_name": "A"])),
        ("realm", .json(realmItem)), ("uri_scheme", .text("https://")), ("next_page", .text("plans")),
      ])
    },
    Call(.post, "/api/v1/remotes/push/e2ee/register") { registration($0, apns, "apns") },
    Call(.post, "/api/v1/remotes/push/e2ee/register") { registration($0, fcm, "fcm") },
    Call(
      .post, "/api/v1/remotes/push/e2ee/notify",
      values: [("apns_push_type", "hologram"), ("apns_priority", 7), ("fcm_priority", "urgent")]
    ) { _ in
      .json([
        "realm_uuid": .string(realm),
        "push_requests": [
          item(
            apns, ["http_headers": ["apns_priority": 10, "apns_push_type": "alert"]],
            ["aps": ["mutable-content": 1, "alert": ["title": "New notification"]]]),
          item(fcm, ["fcm_priority": "high"]),
        ],
      ])
    },
    Call(.post, "/api/v1/remotes/push/register") { _ in .form(legacy) },
    Call(.post, "/api/v1/remotes/push/notify", values: [("priority", "urgent"), ("event", "invented")]) { _ in
      .json([
        "user_id": 10, "user_uuid": .string(user), "realm_uuid": .string(realm),
        "gcm_payload": ["event": "message", "content": "a"],
        "apns_payload": ["alert": "a", "custom": ["zulip": ["message_ids": [1]]]],
        "gcm_options": ["priority": "high"], "android_devices": ["legacy-token"], "apple_devices": [],
      ])
    },
    Call(.post, "/api/v1/remotes/push/test_notification") { _ in
      .json([
        "token": "legacy-token", "token_kind": 2, "user_id": 10, "user_uuid": .string(user),
        "realm_uuid": .string(realm), "base_payload": ["realm_name": "a", "realm_url": "b"],
      ])
    },
    Call(.get, "/api/v1/remotes/push/status"),
    Call(.post, "/api/v1/remotes/push/unregister") { _ in .form(legacy) },
    Call(.post, "/api/v1/remotes/push/unregister/all") { _ in .form(Array(legacy.prefix(3))) },
    Call(.get, "/api/v1/remotes/about"),
    Call(.get, "/api/v1/zulip-services/webpush/vapid"),
    // A stock server sends an empty object.
    Call(.post, "/api/v1/remotes/server/deactivate") { ground in
      // Nothing works after it, so each is of a server of its own.
      try await ground.changeServer()
      return .json([:])
    },
  ]

  static let zulipServer: [Call] = [
    Call(.post, "/api/v1/register", values: [("event_types", ["device", "invented"])]) { _ in
      .form([
        ("event_types", .json(["device"])),
        ("client_capabilities", .json(["notification_settings_null": true])),
      ])
    },
    Call(.get, "/api/v1/events?dont_block=true&last_event_id=-1&queue_id={queue}"),
    Call(.delete, "/api/v1/events?queue_id={queue}"),
    Call(.post, "/api/v1/register_client_device"),
    Call(.post, "/api/v1/mobile_push/register") { ground in
      let key = Base64.encode([0x31] + [UInt8](repeating: 7, count: 32))
      return .form([
        ("device_id", .text("\(try await ground.device())")), ("push_key", .text(key)),
        ("push_key_id", .text("7")), ("token_kind", .text("fcm")), ("bouncer_public_key", .text("a")),
        ("encrypted_push_registration", .text("AAAA")), ("token_id", .text(TokenID(token: fcm).base64)),
      ])
    },
    Call(.post, "/api/v1/mobile_push/e2ee/test_notification", status: 400),
    Call(.post, "/api/v1/remove_client_device") { .form([("device_id", .text("\(try await $0.device())"))]) },
    Call(.post, "/api/v1/users/me/apns_device_token") { _ in
      .form([("token", .text(apns)), ("appid", .text("example.app"))])
    },
    Call(.post, "/api/v1/users/me/android_gcm_reg_id") { _ in .form([("token", .text("another-token"))]) },
    Call(.post, "/api/v1/mobile_push/test_notification") { _ in .form([("token", .text("another-token"))]) },
    Call(.delete, "/api/v1/users/me/apns_device_token") { _ in .form([("token", .text(apns))]) },
    Call(.delete, "/api/v1/users/me/android_gcm_reg_id") { _ in .form([("token", .text("another-token"))]) },
  ]

  private static let phone: (identifier: [UInt8], preimage: [UInt8], token: String) = {
    let preimage = Array(#"["alice@cloud.example.org",7]"#.utf8)
    return (
      Array(SHA512.hash(data: Data(preimage))), preimage,
      "fcm-\(String(repeating: "0123456789abcdef", count: 4)):x"
    )
  }()

  private static let device: [(String, Part)] = [
    ("pushToken", .text(phone.token)), ("deviceIdentifier", .text(Base64.encode(phone.identifier))),
    ("deviceIdentifierSignature", .text(Base64.encode(key.sign(phone.preimage)))),
    ("userPublicKey", .text(key.publicKey.pem)),
  ]

  private static func entry() -> JSON {
    let subject = (0..<256).map { _ in UInt8.random(in: .min ... .max) }
    let hash = SHA512.hash(data: Data(phone.token.utf8)).map { String(format: "%02x", $0) }.joined()
    return [
      "deviceIdentifier": .string(Base64.encode(phone.identifier)), "pushTokenHash": .string(hash),
      "subject": .string(Base64.encode(subject)), "signature": .string(Base64.encode(key.sign(subject))),
      "priority": "high", "type": "alert",
    ]
  }

  static let nextcloud: [Call] = [
    Call(.post, "/devices") { _ in .form(device) },
    Call(.post, "/devices") { _ in
      .json(
        .object(
          JSON.Object(
            device.compactMap { name, part in
              if case .text(let text) = part { .init(name, .string(text)) } else { nil }
            })))
    },
    Call(.post, "/notifications", values: [("priority", "urgent"), ("type", "hologram")]) { _ in
      .form([("notifications[0]", .json(entry()))])
    },
    Call(.post, "/notifications", values: [("priority", "urgent"), ("type", "hologram")]) { _ in
      .json(["notifications": [entry()]])
    },
    Call(.delete, "/devices") { ground in
      _ = try await ground.send(.post, "/devices", .form(device))
      return .form(device)
    },
    Call(.get, "/", status: 404), Call(.get, "/status.php"), Call(.get, "/index.php/204", status: 204),
    Call(.post, "/index.php/login/v2"),
    Call(.post, "/index.php/login/v2/poll", status: 404) { _ in .form([("token", .text("a"))]) },
    Call(.get, "/ocs/v2.php/cloud/capabilities"), Call(.get, "/ocs/v2.php/cloud/user"),
    Call(.get, "/ocs/v2.php/cloud/users/iago"), Call(.get, "/ocs/v2.php/core/getapppassword", status: 403),
    Call(.get, "/ocs/v2.php/identityproof/key/iago"),
    Call(.post, "/ocs/v2.php/apps/notifications/api/v2/push") { _ in
      .form([
        ("pushTokenHash", .text(String(repeating: "0", count: 128))),
        ("devicePublicKey", .text(key.publicKey.pem)), ("proxyServer", .text("https://push.example.org")),
      ])
    },
    Call(.delete, "/ocs/v2.php/apps/notifications/api/v2/push"),
    Call(.get, "/ocs/v2.php/apps/notifications/api/v2/webpush/vapid"),
    Call(.post, "/ocs/v2.php/apps/notifications/api/v2/webpush") { ground in
      let phone = WebPushPhone()
      return .form([
        ("endpoint", .text(try await ground.subscription())), ("uaPublicKey", .text(phone.publicKey)),
        ("auth", .text(phone.auth)),
        ("appTypes", .text("all,invented")),
      ])
    },
    Call(.post, "/ocs/v2.php/apps/notifications/api/v2/webpush/activate", status: 400) { _ in
      .form([("activationToken", .text("a"))])
    },
    Call(.delete, "/ocs/v2.php/apps/notifications/api/v2/webpush"),
    Call(.post, "/ocs/v2.php/apps/notifications/api/v3/test/self"),
    Call(.get, "/ocs/v2.php/apps/notifications/api/v2/notifications"),
    Call(.post, "/ocs/v2.php/apps/notifications/api/v2/notifications/exists") { _ in
      .form([("ids[]", .text("1"))])
    },
    Call(.delete, "/ocs/v2.php/apps/notifications/api/v2/notifications"),
  ]

  // MARK: The test

  @Test func `What a newer Zulip server adds is no error at its bouncer`() async throws {
    try await Ground.test { ground in
      for call in Self.zulipBouncer { try await ground.check(call) }
    }
  }

  @Test func `What a newer app of Zulip adds is no error`() async throws {
    try await Ground.test { ground in
      for call in Self.zulipServer { try await ground.check(call) }
    }
  }

  @Test func `What a newer Nextcloud or its apps add is no error`() async throws {
    try await Ground.test { ground in
      for call in Self.nextcloud { try await ground.check(call) }
    }
  }

  @Test func `Every route is among them`() async throws {
    try await Ground.test { ground in
      let calls = Self.zulipBouncer + Self.zulipServer + Self.nextcloud
      let known = Set(calls.map { "\($0.method) \($0.path.prefix { $0 != "?" })" })
      // The backend API is not among them: it is the operator's own. Pages of browsers have no newer sender, and
      // other paths are second names.
      let others = [
        "/backend/", "/login/", "/index.php/login/v2/flow/", "/mobile_push/", "/204", "/ocs/v1.php/",
        "/ocs/v2.php/apps/notifications/api/v2/notifications/{nid}", "/ocs/v2.php/core/apppassword",
        "/ocs/v2.php/apps/notifications/api/v3/push",
      ]
      let refusals = try await ground.refusedMethods()
      for route in ground.test.service.endpoints.routes where !others.contains(where: route.path.hasPrefix) {
        let path = route.path.replacing("{user_id}", with: "iago")
        let name = "\(route.method) \(path)"
        let isSecond = name == "GET /api/v1/remotes/server/register/verify_challenge"
        #expect(known.contains(name) || refusals.contains(name) || isSecond, "\(name)")
      }
    }
  }

  @Test func `The operator's own program is told of a name that is not known`() async throws {
    try await Ground.test { ground in
      let path = "/backend/v1/realms/\(Self.realm)"
      for (path, body) in [
        (path, #"{"name":"Chat","url":"https://chat.example.org","require_e2ee":true}"#),
        ("\(path)/users/1", #"{"email":"a@example.org","api_key":"\#(Self.apiKey)","user_name":"a"}"#),
      ] {
        let answer = try await ground.test.call(
          .put, path, headers: [.authorization: "Bearer \(Self.token)"], body: body.utf8)
        #expect(answer.status == 400 && answer.message?.hasSuffix("is unexpected") == true, "\(answer.text)")
      }
    }
  }

  /// A service with all that is called, and its callers.
  final class Ground: Sendable {
    let test: TestService
    let simulator: SimulatedProviders
    let bouncerKey: BouncerKeyPair
    private let state = Mutex(State())

    /// What changes from call to call.
    private struct State {
      /// The chat server that calls.
      var (id, key) = ("", "")
      var (number, servers) = (Int64(0), 0)
      /// What a phone of Nextcloud's signs in with.
      var login: String?
    }

    var id: String { state.withLock(\.id) }
    var key: String { state.withLock(\.key) }

    private init(_ test: TestService, _ simulator: SimulatedProviders, _ key: BouncerKeyPair) {
      (self.test, self.simulator, bouncerKey) = (test, simulator, key)
    }

    static func test(_ body: @escaping @Sendable (Ground) async throws -> Void) async throws {
      var simulation = SimulatedProviders.Configuration()
      simulation.topics = ["example.app"]
      let simulator = try await SimulatedProviders.start(simulation)
      try await withTemporaryFolder { folder in
        try simulator.writeKeys(to: folder)
        let settings = [
          "backend.token": token, "nextcloud.enabled": "true", "http.rate_limit.per_address": "0",
          "server.rate_limit.per_user": "0", "bouncer.rate_limit.per_server": "0",
          "nextcloud.rate_limit.per_address": "0", "bouncer.registration": "open",
          "webpush.allow_private_hosts": "127.0.0.1", "http.public_url": "https://push.example.org",
          "delivery.deadline": "10s", "nextcloud.deadline": "10s", "apns.endpoint": simulator.apnsEndpoint,
          "fcm.endpoint": simulator.fcmEndpoint, "fcm.default_project": "default",
          "providers.ca_file": folder.appending(path: "ca.pem").path,
        ]
        try await TestService.run(settings, clock: TestClock(Date()), keys: simulator.writeKeys) { test in
          let files = BouncerKeyFiles(directory: test.configuration.keys.directory)
          let key = try #require(try files.list().first { $0.state == .active })
          let ground = Ground(test, simulator, key.pair)
          try await ground.changeServer()
          let realm = "/backend/v1/realms/\(NewerSenderTests.realm)"
          for (path, body) in [
            (realm, #"{"name":"Chat","url":"https://chat.example.org"}"#),
            (
              "\(realm)/users/1",
              #"{"email":"\#(email)","api_key":"\#(apiKey)","username":"iago"}"#
            ),
          ] {
            let answer = try await test.call(
              .put, path, headers: [.authorization: "Bearer \(token)"], body: body.utf8)
            #expect((200..<300).contains(answer.status), "\(answer.text)")
          }
          try await body(ground)
        }
      }
      await simulator.stop()
    }

    /// A number above all before.
    func next() -> Int64 {
      state.withLock { state in
        state.number += 1
        return state.number
      }
    }

    /// Has another chat server call from now on.
    func changeServer() async throws {
      let count = state.withLock { state in
        state.servers += 1
        return state.servers
      }
      let name = count == 1 ? "chat.example.org" : "chat\(count).example.org"
      let (server, key) = try await test.service.store.servers.add(
        hostname: Hostname(name), contactEmail: "admin@example.org")
      state.withLock { ($0.id, $0.key) = (server.uuid.uuidString.lowercased(), key) }
    }

    /// Paths and methods that no handler serves.
    func refusedMethods() async throws -> Set<String> {
      var refused: Set<String> = []
      for route in test.service.endpoints.routes {
        let path = route.path.replacing("{user_id}", with: "iago")
        let answer = try await test.call(route.method, path.replacing(#/{[a-z_]+}/#, with: "1"))
        if answer.status == 405 || route.method == .options { refused.insert("\(route.method) \(path)") }
      }
      return refused
    }

    /// The address of a new subscription at the simulated push service.
    func subscription() async throws -> String {
      let answer = try await test.call(.get, "/api/v1/zulip-services/webpush/vapid")
      let key = try #require(answer.json["vapid"]?.string)
      return "\(simulator.webPushEndpoint)/push/\(try #require(simulator.subscribe(vapid: key)))"
    }

    func device() async throws -> Int64 {
      let answer = try await send(.post, "/api/v1/register_client_device", .none)
      return try #require(answer.json["device_id"]?.integer)
    }

    func send(
      _ method: HTTPRequest.Method, _ path: String, _ body: Body, _ more: HTTPFields = [:]
    ) async throws -> Answer {
      let credentials =
        path.hasPrefix("/api/v1/remotes/") ? "\(id):\(key)" : "\(email):\(apiKey)"
      var headers: HTTPFields = [
        .ocsAPIRequest: "true", .userAgent: "Mozilla/5.0 (Android) Nextcloud-Talk v21.0.0",
      ]
      if path.hasPrefix("/api/") || path.hasPrefix("/ocs/") {
        headers[.authorization] =
          "Basic \(Base64.encode((path.hasPrefix("/ocs/") ? try await appLogin() : credentials).utf8))"
      }
      headers.append(contentsOf: more)
      let bytes: [UInt8]
      switch body {
      case .none: bytes = []
      case .json(let json):
        (headers[.contentType], bytes) = ("application/json", json.bytes)
      case .form(let fields):
        headers[.contentType] = "application/x-www-form-urlencoded"
        bytes = Form.encode(
          try fields.map { name, part in
            switch part {
            case .text(let text): (name: name, value: text)
            case .json(let json): (name: name, value: json.text)
            case .sealed(let json):
              (
                name: name,
                value: Base64.encode(try #require(SealedBox.seal(json.bytes, to: bouncerKey.publicKey)))
              )
            }
          })
      }
      return try await test.call(method, path, headers: headers, body: bytes)
    }

    /// The app password of a phone.
    private func appLogin() async throws -> String {
      if let login = state.withLock(\.login) { return login }
      let answer = try await test.call(
        .get, "/ocs/v2.php/core/getapppassword?format=json",
        headers: [
          .authorization: "Basic \(Base64.encode("iago:\(apiKey)".utf8))", .ocsAPIRequest: "true",
        ])
      let password = try #require(answer.json["ocs"]?["data"]?["apppassword"]?.string, "\(answer.text)")
      state.withLock { $0.login = "iago:\(password)" }
      return "iago:\(password)"
    }

    private func queue() async throws -> String {
      try #require(try await send(.post, "/api/v1/register", .none).json["queue_id"]?.string)
    }

    /// Makes a call as it is known, and with each addition.
    func check(_ call: Call) async throws {
      func answer(
        _ addition: Addition?, query: String? = nil, _ headers: HTTPFields = [:]
      ) async throws -> Answer {
        var path = call.path
        if path.contains("{queue}") { path = path.replacing("{queue}", with: try await queue()) }
        if let query { path += (path.contains("?") ? "&" : "?") + query }
        var body = try await call.body(self)
        if let addition { body = body.with(addition) }
        return try await send(call.method, path, body, headers)
      }
      let usual = try await answer(nil)
      #expect(usual.status / 100 == call.status / 100, "\(call.testDescription): \(usual.text)")
      func expectSame(_ answer: Answer, _ addition: String) {
        #expect(
          answer.status / 100 == usual.status / 100, "\(call.testDescription), \(addition): \(answer.text)")
        for name in [
          "msg", "apple_successfully_sent_count", "android_successfully_sent_count", "delete_token_ids",
          "failed", "unknown", "total_android_devices",
        ] {
          #expect(
            answer.json[name] == usual.json[name], "\(call.testDescription), \(addition): \(answer.text)")
        }
      }
      expectSame(try await answer(nil, query: "new_parameter=%5B1%5D&new.parameter"), "a query parameter")
      expectSame(
        try await answer(
          nil,
          [
            HTTPField.Name("X-New-Header")!: "a", HTTPField.Name("Priority")!: "u=1",
            HTTPField.Name("Traceparent")!: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
          ]), "a header")
      for place in try await call.body(self).objects {
        expectSame(try await answer(.member(in: place)), "a member in \(place)")
      }
      for (member, value) in call.values {
        expectSame(try await answer(.value(value, of: member)), "\(member) \(value)")
      }
    }
  }

  enum Addition: Sendable {
    /// A member of the object at a place, or a field of the form.
    case member(in: String)
    /// Another value wherever a member has this name.
    case value(JSON, of: String)
  }
}

extension HTTPField.Name {
  fileprivate static let ocsAPIRequest = HTTPField.Name("OCS-APIRequest")!  // a valid token
}

extension NewerSenderTests.Body {
  /// The places of all objects in it, the body's own first.
  var objects: [String] {
    switch self {
    case .none: [""]
    case .json(let json): json.objects(at: "")
    case .form(let fields):
      [""]
        + fields.flatMap { name, part in
          switch part {
          case .text: [String]()
          case .json(let json), .sealed(let json): json.objects(at: name)
          }
        }
    }
  }

  func with(_ addition: NewerSenderTests.Addition) -> Self {
    switch self {
    case .none:
      return .form([("new_member", .text("1"))])
    case .json(let json): return .json(json.with(addition, at: ""))
    case .form(let fields):
      var changed = fields.map { name, part in
        if case .value(.string(let text), name) = addition { return (name, NewerSenderTests.Part.text(text)) }
        return switch part {
        case .text: (name, part)
        case .json(let json): (name, .json(json.with(addition, at: name)))
        case .sealed(let json): (name, .sealed(json.with(addition, at: name)))
        }
      }
      if case .member(in: "") = addition { changed.append(("new_member", .text("1"))) }
      return .form(changed)
    }
  }
}

extension JSON {
  fileprivate func objects(at place: String) -> [String] {
    switch self {
    case .object(let object):
      [place] + object.members.flatMap { $0.value.objects(at: "\(place).\($0.name)") }
    case .array(let elements):
      elements.enumerated().flatMap { $1.objects(at: "\(place)[\($0)]") }
    default: []
    }
  }

  fileprivate func with(_ addition: NewerSenderTests.Addition, at place: String) -> JSON {
    switch self {
    case .object(let object):
      var changed = JSON.Object(
        object.members.map { member in
          if case .value(let value, of: member.name.text) = addition { return .init(member.name, value) }
          return .init(member.name, member.value.with(addition, at: "\(place).\(member.name)"))
        })
      if case .member(in: place) = addition { changed["new_member"] = ["a": [1, nil]] }
      return .object(changed)
    case .array(let elements):
      return .array(elements.enumerated().map { $1.with(addition, at: "\(place)[\($0)]") })
    default: return self
    }
  }
}
