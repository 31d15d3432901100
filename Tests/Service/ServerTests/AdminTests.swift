import Basics
import Crypto
import Foundation
import HTTP
import HTTPTypes
import Hummingbird
import NIOCore
import Providers
import Registrations
import SQL
import Sealing
import Synchronization
import TestService
import TestSupport
import Testing

@testable import HTTPClient
@testable import Operator
@testable import Platform
@testable import Server

/// The operator's pages.
@Suite struct AdminTests {
  private static let token = "an-operators-token-of-some-length"
  private static let hostile =
    #"<script>alert("1")</script>'&amp;<img src=x onerror=alert(1)>"# + "\u{202E}\u{7}\u{200B}`"

  // MARK: What is shown

  @Test func `An empty service says what to do first, and carries nothing from elsewhere`() async throws {
    try await TestService.run(["webpush.enabled": "false"]) { service in
      let answer = try await service.callOperator(.get, "/admin")
      #expect(answer.status == 200)
      #expect(answer.headers[.contentType] == "text/html; charset=utf-8")
      for text in [
        "Degraded", "There is no credential in Keys/apns and Keys/fcm: nothing can be delivered",
        "Nothing yet.",
      ] {
        #expect(answer.text.contains(text), "\(text)")
      }
      // It takes requests, but nothing works.
      #expect(!answer.text.contains("everything works") && answer.text.contains("light doubtful"))
      // What the colours mean is not told where there are none.
      #expect(!answer.text.contains("class=\"key"))
      #expect(!answer.text.contains("<script") && !answer.text.contains("http://"))
      #expect(answer.text.contains(#"<meta http-equiv="refresh" content="30">"#))
    }
  }

  @Test func `Web Push alone is a way to deliver`() async throws {
    try await TestService.run { service in
      let answer = try await service.callOperator(.get, "/admin")
      #expect(answer.text.contains("everything works") && !answer.text.contains("nothing can be delivered"))
      for text in [">webpush</td>", "not used recently", "No credential: put a key of Apple's"] {
        #expect(answer.text.contains(text), "\(text)")
      }
    }
  }

  @Test(arguments: ["/admin", "/admin/find?q=x", "/admin/servers", "/admin/servers/999"])
  func `Every page has a policy that lets nothing in but its own sheet`(_ path: String) async throws {
    try await TestService.run { service in
      let answer = try await service.callOperator(.get, path)
      let policy = try #require(answer.headers[.contentSecurityPolicy])
      for part in ["default-src 'none'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
        #expect(policy.contains(part))
      }
      let start = try #require(answer.text.range(of: "<style>")),
        end = try #require(answer.text.range(of: "</style>"))
      let sheet = Data(answer.text[start.upperBound..<end.lowerBound].utf8)
      #expect(policy.contains("style-src 'sha256-\(Data(SHA256.hash(data: sheet)).base64EncodedString())'"))
      // It would not be let in.
      #expect(!answer.text.contains(" style="))
      #expect(answer.headers[.cacheControl] == "no-store")
      #expect(answer.headers[.xContentTypeOptions] == "nosniff")
    }
  }

  @Test func `Whatever a stranger writes into the database is shown letter by letter`() async throws {
    try await TestService.run { service in
      let store = service.service.store
      let (server, _) = try await store.servers.add(
        hostname: try Hostname("chat.example.org"), contactEmail: Self.hostile)
      let text = Value.text(Self.hostile.replacing("\u{7}", with: ""))
      let hour = Int64(service.clock.now.timeIntervalSince1970 / 3600)
      let statements: [(String, [Value])] = [
        (
          "UPDATE remote_servers SET hostname = $1, hostname_key = $1, last_version = $1 WHERE id = $2",
          [text, .integer(server.id)]
        ),
        (
          """
          INSERT INTO remote_realms (server_id, uuid, owner_secret_hash, host, name, is_system_bot_realm,
            authentication_methods, org_type, is_deactivated, is_locally_deleted, date_created)
          VALUES ($1, $2, $3, $4, $4, 0, '{}', 10, 0, 0, 0)
          """, [.integer(server.id), .text(Self.hostile), .bytes([1]), text]
        ),
        ("INSERT INTO bouncer_keys (public_key) VALUES ($1)", [text]),
        (
          """
          INSERT INTO registrations (wire, realm_id, token_id, kind, token, token_hash, target, registered_at,
            failure, failed_at, failed_by, bouncer_key_id)
          SELECT 1, id, 7, 1, $1, 1, $2, 0, $2, $3, server_id, (SELECT MAX(id) FROM bouncer_keys) FROM remote_realms
          """, [.bytes([1]), text, .integer(hour * 3_600_000)]
        ),
        (
          """
          INSERT INTO registrations (wire, token_hash, device_identifier, user_key, token, token_sha512, kind, app,
            target, registered_at, seen_at, failure, failed_at) VALUES (3, 0, $1, $1, $1, $1, 1, $2, $2, 0, 0, $2, 5)
          """, [.bytes([UInt8](repeating: 1, count: 64)), text]
        ),
        (
          """
          INSERT INTO nodes (id, hostname, version, schema, started_at, seen_at, is_serving)
          VALUES ($1, $2, $2, 1, 0, $3, 1)
          """,
          [.text(UUID().uuidString), text, .integer(hour * 3_600_000)]
        ),
        (
          """
          INSERT INTO hourly_counts (event, hour, subject, detail, count)
          VALUES ('accepted', $1, $2, $2, 1), ('refused', $1, $2, $2, 1), ('postponed', $1, $2, $2, 1)
          """, [.integer(hour), text]
        ),
      ]
      try await store.database.write { connection in
        for (sql, values) in statements { try connection.run(Statement(sql, arguments: values)) }
      }
      let query = try #require(Self.hostile.addingPercentEncoding(withAllowedCharacters: .alphanumerics))
      let paths = [
        "/admin", "/admin/servers", "/admin/servers/\(server.id)", "/admin/find?q=\(query)",
        "/admin/find?q=e2ee:1", "/admin/find?q=nextcloud:2", "/admin/find?q=\(server.uuid.uuidString)",
      ]
      for path in paths {
        let answer = try await service.callOperator(.get, path)
        #expect(answer.status == 200, "\(path)")
        #expect(!answer.text.contains("<script") && !answer.text.contains("<img"), "\(path)")
        #expect(!answer.text.unicodeScalars.contains { $0.isHidden && $0 != "\n" }, "\(path)")
        #expect(!answer.text.contains("`"), "\(path)")
        #expect(answer.text.contains("&lt;script&gt;"), "\(path)")
      }
      let page = try await service.callOperator(.get, "/admin/servers/\(server.id)").text
      let refusals = try #require(page.range(of: "Last refusals"))
      #expect(page[refusals.upperBound...].contains(#"<a href="/admin/find?q=e2ee:1">e2ee:1</a>"#))
    }
  }

  @Test func `A bundle id of any length fills neither the log nor a page`() async throws {
    let log = LogRecorder()
    try await TestService.run(["webpush.enabled": "false"], logger: log.logger) { service in
      let store = service.service.store
      let (server, key) = try await store.servers.add(
        hostname: try Hostname("chat.example.org"), contactEmail: "a@example.org")
      for number in 0..<20 {
        try await store.registrations.register(
          PushToken(String(repeating: "\(number % 10)", count: 64 + number / 10 * 2), kind: .apns),
          iosAppID: "org.example.\(number)", for: try #require(LegacyUser(id: 1, uuid: nil)),
          server: server.id,
          realm: nil)
      }
      let long = Value.text(String(repeating: "\u{200B}org", count: 150_000))
      try await store.database.write { connection in
        try connection.run(Statement("UPDATE registrations SET target = target || $1", arguments: [long]))
        try connection.run(
          Statement(
            """
            INSERT INTO remote_realms (server_id, uuid, owner_secret_hash, host, name, is_system_bot_realm,
              authentication_methods, org_type, is_deactivated, is_locally_deleted, date_created)
            VALUES ($1, 'a', $2, $3, $3, 0, '{}', 10, 0, 0, 0)
            """, arguments: [.integer(server.id), .bytes([1]), long]))
      }
      let credentials = Base64.encode(Array("\(server.uuid.canonical):\(key)".utf8))
      let answer = try await service.call(
        .post, "/api/v1/remotes/push/notify",
        headers: [.authorization: "Basic \(credentials)", .contentType: "application/json"],
        body: #"{"user_id":1,"apns_payload":{"alert":"x"},"gcm_payload":{}}"#.utf8)
      #expect(answer.status == 200)
      let lines = log.lines.map { LogFormat.text.line($0.level, $0.message, $0.metadata.map { $0 }) }
      #expect(lines.contains { $0.contains("no key in Keys/apns") })
      #expect(lines.allSatisfy { $0.utf8.count < 10_000 && !$0.unicodeScalars.contains { $0.isHidden } })
      for path in ["/readyz", "/admin", "/admin/servers/\(server.id)", "/admin/find?q=chat.example.org"] {
        let answer = try await service.callOperator(.get, path)
        #expect(answer.text.utf8.count < 100_000, "\(path)")
        #expect(!answer.text.unicodeScalars.contains { $0.isHidden && $0 != "\n" }, "\(path)")
      }
      #expect(try await service.callOperator(.get, "/readyz").text.contains("org.example."))
    }
  }

  @Test func `A page says so while the database does not answer`() async throws {
    try await TestService.run { service in
      await service.service.store.database.close()
      let answer = try await service.callOperator(.get, "/admin")
      #expect(answer.status == 200)
      #expect(answer.text.contains("Unavailable</span>: the database does not answer"))
      for part in [
        "Nodes", "Notifications, the last 24 hours", "From the call to the provider&#39;s acceptance",
      ] {
        #expect(answer.text.contains("<section><h2>\(part)</h2><p class=\"faint\">Not known:"), "\(part)")
      }
      // What is in memory is known all the same.
      #expect(answer.text.contains("wait for a provider"))
      #expect(try await service.callOperator(.get, "/admin/find?q=7").status == 503)
      #expect(try await service.callOperator(.get, "/admin/servers/1").status == 503)
    }
  }

  @Test func `Searches are bounded, and a token is not searched for in an address`() async throws {
    try await TestService.run { service in
      for query in ["", "%20", String(repeating: "a", count: 5000), String(repeating: "ab", count: 32)] {
        let answer = try await service.callOperator(.get, "/admin/find?q=\(query)")
        #expect(answer.status == 200)
        #expect(
          !answer.text.contains("aaaaaaaaaaaaaaaaaaaa") && !answer.text.contains("abababababababababab"))
      }
      #expect(try await service.callOperator(.get, "/admin/find").status == 200)
      #expect(try await service.callOperator(.get, "/admin/servers/nonsense").status == 404)
      #expect(try await service.callOperator(.get, "/admin/servers?page=-7").status == 200)
    }
  }

  @Test func `The list of all chat servers has two hundred on a page`() async throws {
    try await TestService.run { service in
      let store = service.service.store
      func add(_ numbers: ClosedRange<Int>) async throws {
        for number in numbers {
          _ = try await store.servers.add(
            hostname: try Hostname("chat\(number).example.org"), contactEmail: "a@example.org")
        }
      }
      func page(_ number: Int) async throws -> String {
        try await service.callOperator(.get, "/admin/servers?page=\(number)").text
      }
      // Beside the built-in one.
      try await add(1001...1199)
      #expect(try await page(1).contains("Page 1 of 1"))
      try await add(1200...1200)
      await eventually("the next figures") {
        (try? await page(1).contains("Page 1 of 2")) == true
      }
      let pages = [try await page(1), try await page(2)]
      #expect(pages.map { $0.contains("chat1199.") } == [true, false])
      #expect(pages.map { $0.contains("chat1200.") } == [false, true])
    }
  }

  @Test(arguments: ["7+chat.example.org", "7%20chat.example.org", "++7+chat.example.org+"])
  func `A search is read as a browser's form sends it`(_ query: String) async throws {
    try await TestService.run { service in
      let answer = try await service.callOperator(.get, "/admin/find?q=\(query)")
      #expect(answer.text.contains("<h1>7 chat.example.org: 0 devices</h1>"))
      #expect(answer.text.contains("No old app of this user is registered at chat.example.org"))
      #expect(answer.text.contains(#"name="q" value="7 chat.example.org""#))
      let plus = try await service.callOperator(.get, "/admin/find?q=a%2Bb")
      #expect(plus.text.contains("<h1>a+b: 0 devices</h1>"))
    }
  }

  // MARK: Who may see it

  @Test(arguments: ["/admin", "/metrics", "/readyz"])
  func `Without a token it is shown under addresses only, so that no other site's name opens it`(
    _ path: String
  ) async throws {
    try await TestService.run { service in
      for (host, isShown) in [
        ("127.0.0.1:8081", true), ("[::1]:8081", true), ("localhost:8081", true), ("evil.example", false),
        ("127.0.0.1.evil.example:8081", false),
      ] {
        let answer = try await service.callOperator(.get, path, host: host)
        #expect((answer.status == 403) == !isShown, "\(host)")
        #expect(isShown || !answer.text.contains("database"))
      }
    }
  }

  @Test(arguments: ["push.example.org", "[::1]:8081", "127.0.0.1:8081"])
  func `Forms are taken from these pages alone, under a name as under an address`(_ host: String) async throws
  {
    try await TestService.run(["admin.token": Self.token]) { service in
      let own = "http://\(host)"
      func post(_ path: String, _ headers: HTTPFields) async throws -> Answer {
        var headers = headers
        headers[.contentType] = "application/x-www-form-urlencoded"
        return try await service.callOperator(
          .post, path, headers, host: host, body: Array("token=\(Self.token)".utf8))
      }
      for origin in [own, own.uppercased()] {
        #expect(try await post("/admin/sign-in", [.origin: origin]).status == 303, "\(origin)")
      }
      let strangers: [HTTPFields] =
        [[:], [.origin: own, .secFetchSite: "cross-site"]]
        + ["http://evil.example", "\(own)0", "\(own).evil.example", "null"].map { [.origin: $0] }
      for headers in strangers {
        for path in ["/admin/sign-in", "/admin/sign-out"] {
          let answer = try await post(path, headers)
          #expect(answer.status == 403 && answer.headers[.setCookie] == nil, "\(headers)")
        }
      }
    }
  }

  @Test func `Who shows the token signs in, with a cookie that scripts and other sites do not get`()
    async throws
  {
    try await TestService.run(["admin.token": Self.token]) { service in
      let before = try await service.callOperator(.get, "/admin", host: "push.example.org")
      #expect(
        before.status == 401 && before.text.contains(#"type="password""#) && !before.text.contains("Outbox"))
      #expect(!before.text.contains("Find") && before.text.contains("push-bouncer.yaml"))
      let signedIn = try await service.signIn(Self.token)
      #expect(signedIn.status == 303 && signedIn.headers[.location] == "/admin")
      let cookie = try #require(signedIn.headers[.setCookie])
      for attribute in ["Path=/admin", "Max-Age=43200", "HttpOnly", "SameSite=Strict", "Secure"] {
        #expect(cookie.contains("; \(attribute)"), "\(attribute)")
      }
      #expect(!cookie.contains(Self.token))
      let plain = try await service.signIn(Self.token, scheme: "http")
      #expect(plain.headers[.setCookie]?.contains("Secure") == false)
      let session = String(cookie.prefix { $0 != ";" })
      let page = try await service.callOperator(
        .get, "/admin", [.cookie: "other=1; \(session)"], host: "push.example.org")
      #expect(page.status == 200 && page.text.contains("Sign out"))
      // Who has no session ends none.
      var out = try await service.signOut("push-bouncer-admin=1.AAAA")
      #expect(out.status == 303 && out.headers[.setCookie]?.contains("Max-Age=0") == true)
      func status(_ cookie: String) async throws -> Int {
        try await service.callOperator(.get, "/admin", [.cookie: cookie]).status
      }
      #expect(try await status(session) == 200)
      out = try await service.signOut(session)
      #expect(out.status == 303 && out.headers[.setCookie]?.contains("Max-Age=0") == true)
      // A copy of the cookie, too, and any other session's; now, and after a restart.
      for cookie in [session, String(plain.headers[.setCookie]?.prefix { $0 != ";" } ?? "")] {
        #expect(try await status(cookie) == 401)
      }
      let database = service.service.store.database
      let afterwards = try await AdminSessions(database: database).number
      #expect(afterwards.count == 16)
      let again = try #require(try await service.signIn(Self.token).headers[.setCookie])
      #expect(try await status(String(again.prefix { $0 != ";" })) == 200)
      // What is known stays so while the database does not answer, and nobody is told that the session has ended.
      await database.close()
      #expect(try await status(String(again.prefix { $0 != ";" })) == 200)
      let later = try await service.signOut(String(again.prefix { $0 != ";" }))
      #expect(later.status == 503 && later.headers[.setCookie] == nil)
      #expect(
        try await service.callOperator(.get, "/admin", [.authorization: "Bearer \(Self.token)"]).status == 200
      )
    }
  }

  @Test func `A session ends, and a cookie that was tampered with is none`() async throws {
    try await TestService.run(["admin.token": Self.token]) { service in
      let cookie = String(
        try #require(try await service.signIn(Self.token).headers[.setCookie]).prefix { $0 != ";" })
      func status(_ cookie: String) async throws -> Int {
        try await service.callOperator(.get, "/admin", [.cookie: cookie]).status
      }
      #expect(try await status(cookie) == 200)
      let parts = cookie.split(separator: "=", maxSplits: 1)[1].split(separator: ".", maxSplits: 1)
      let later = try #require(Int64(parts[0])) + 1
      for wrong in [
        "push-bouncer-admin=", "push-bouncer-admin=.", "push-bouncer-admin=\(later).\(parts[1])",
        "push-bouncer-admin=\(parts[0]).AAAA", "push-bouncer-admin=\(Self.token)", "x\(cookie)",
      ] {
        #expect(try await status(wrong) == 401, "\(wrong)")
      }
      service.clock.advance(12 * 3600 - 60)
      #expect(try await status(cookie) == 200)
      service.clock.advance(61)
      #expect(try await status(cookie) == 401)
    }
  }

  @Test func `Another node on the same database takes a session, and one with another token does not`()
    async throws
  {
    let keys: @Sendable (URL) throws -> Void = { folder in
      let file = folder.appending(path: "storage.key")
      try Data(Base64.encode([UInt8](repeating: 3, count: 32)).utf8).write(to: file)
      try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
    }
    try await TestService.run(["admin.token": Self.token], keys: keys) { first in
      let cookie = String(
        try #require(try await first.signIn(Self.token).headers[.setCookie]).prefix { $0 != ";" })
      for (token, status) in [(Self.token, 200), ("another-\(Self.token)", 401)] {
        try await TestService.run(["admin.token": token], keys: keys) { other in
          let answer = try await other.callOperator(.get, "/admin", [.cookie: cookie])
          #expect(answer.status == status)
        }
      }
    }
  }

  @Test func `Wrong tokens are refused, and soon not even looked at`() async throws {
    try await TestService.run(["admin.token": Self.token]) { service in
      var statuses: [Int] = []
      for number in 0..<30 {
        let answer = try await service.signIn("wrong-\(number)")
        #expect(answer.headers[.setCookie] == nil)
        statuses.append(answer.status)
      }
      #expect(statuses.first == 401 && statuses.last == 429)
    }
  }
}

extension HTTPField.Name {
  fileprivate static let secFetchSite = HTTPField.Name("Sec-Fetch-Site")!  // a valid name
}

/// Keeps the body of an answer.
private final class BodyCollector: ResponseBodyWriter {
  let body = Mutex(ByteBuffer())

  func write(_ buffer: ByteBuffer) async throws {
    body.withLock { _ = $0.writeImmutableBuffer(buffer) }
  }

  func finish(_ trailingHeaders: HTTPFields?) async throws {}
}

extension TestService {
  /// Calls the operator's listener under a name.
  func callOperator(
    _ method: HTTPRequest.Method, _ uri: String, _ headers: HTTPFields = [:], host: String = "127.0.0.1:8081",
    body: [UInt8] = []
  ) async throws -> Answer {
    let request = Request(
      head: HTTPRequest(method: method, scheme: "http", authority: host, path: uri, headerFields: headers),
      body: RequestBody(buffer: ByteBuffer(bytes: body)))
    let response = try await service.operatorEndpoints.responder.respond(
      to: request, context: WireContext(inProcess: .quiet))
    let writer = BodyCollector()
    try await response.body.write(writer)
    let body = writer.body.withLock { $0 }
    return Answer(
      status: Int(response.status.code), headers: response.headers, text: String(buffer: body),
      bytes: Array(body.readableBytesView))
  }

  fileprivate func signOut(_ cookie: String) async throws -> Answer {
    try await callOperator(
      .post, "/admin/sign-out", [.origin: "https://push.example.org", .cookie: cookie],
      host: "push.example.org")
  }

  fileprivate func signIn(_ token: String, scheme: String = "https") async throws -> Answer {
    try await callOperator(
      .post, "/admin/sign-in",
      [.origin: "\(scheme)://push.example.org", .contentType: "application/x-www-form-urlencoded"],
      host: "push.example.org", body: Array("token=\(token)".utf8))
  }
}
