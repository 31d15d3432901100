import Foundation
import HTTP
import HTTPTypes
import SQL
import TestService
import TestSupport
import Testing

@testable import NextcloudServer
@testable import Registrations

/// How a stock app adds an account.
@Suite(.instance) struct LoginFlowTests {
  private let instance = Fixture<Instance>.current

  private static let agent = "Mozilla/5.0 (Android) Nextcloud-Talk v20.0.0"

  /// An app that has started a login.
  private struct Asking {
    let instance: Instance
    let poll: String
    let page: String

    init(_ instance: Instance, userAgent: String = LoginFlowTests.agent, base: String = "/index.php/login/v2")
      async throws
    {
      self.instance = instance
      let answer = try await instance.call(
        .post, base, headers: [.userAgent: userAgent], isOCS: false, format: nil, base: "")
      #expect(answer.status == 200)
      #expect(answer.headers[.cacheControl] == "no-store")
      let prefix = "https://cloud.example.org/nextcloud/index.php/login/v2"
      #expect(answer.json["poll"]?["endpoint"]?.string == "\(prefix)/poll")
      poll = try #require(answer.json["poll"]?["token"]?.string)
      let login = try #require(answer.json["login"]?.string)
      #expect(login.hasPrefix("\(prefix)/flow/"))
      page = String(login.dropFirst("https://cloud.example.org/nextcloud".count))
    }

    var token: String { String(page.split(separator: "/").last ?? "") }

    /// The app polls the login.
    func ask(base: String = "/index.php/login/v2") async throws -> Instance.Answer {
      try await instance.call(
        .post, "\(base)/poll", form: [("token", poll)], isOCS: false, format: nil, base: "")
    }

    /// The user opens the page.
    func open() async throws -> Instance.Answer {
      try await instance.call(.get, page, isOCS: false, format: nil, base: "")
    }

    /// The user sends a form of the page.
    func send(_ form: [(String, String)]) async throws -> Instance.Answer {
      try await instance.call(.post, page, form: form, isOCS: false, format: nil, base: "")
    }

    /// What proves that the user has signed in.
    func signIn(_ app: SignedIn) async throws -> String {
      let answer = try await send([("login", " \(app.user.email)"), ("key", "\(app.apiKey)\n")])
      #expect(answer.status == 200)
      #expect(answer.body.contains("<strong>\(app.user.username)</strong>"))
      return try #require(answer.body.firstMatch(of: /name="proof" value="([^"]+)"/)).1.description
    }
  }

  @Test func `the page runs nothing, loads nothing, and shows what it is given as text`() async throws {
    let asking = try await Asking(
      instance,
      userAgent: "<script>alert('1')</script>\u{202E}\u{0301}&\"\(String(repeating: "x", count: 200))")
    let page = try await asking.open()
    #expect(page.status == 200)
    #expect(page.headers[.contentType] == "text/html; charset=utf-8")
    #expect(page.headers[.cacheControl] == "no-store")
    let policy = try #require(page.headers[.contentSecurityPolicy])
    #expect(policy.hasPrefix("default-src 'none'; style-src 'sha256-"))
    #expect(policy.contains("form-action 'self'; frame-ancestors 'none'; base-uri 'none'"))
    #expect(page.headers[HTTPField.Name("Referrer-Policy")!] == "no-referrer")
    #expect(!page.body.contains("<script"))
    #expect(!page.body.contains("\u{202E}"))
    #expect(page.body.contains("<strong>&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;&quot;xxx"))
    #expect(page.body.contains("Cloud &amp; Co"))
    #expect(!page.body.contains(String(repeating: "x", count: 100)))
    #expect(!page.body.contains("http"))
    let again = try await asking.send([("login", "\"><b>"), ("key", "x")])
    #expect(again.status == 403)
    #expect(again.body.contains("value=\"&quot;&gt;&lt;b&gt;\""))
    #expect(again.body.contains("this is not its key"))
    let nameless = try await Asking(instance, userAgent: " \u{200B}")
    #expect(try await nameless.open().body.contains("An app without a name"))
  }

  @Test func `only who has signed in for this very flow can say yes`() async throws {
    let app = try await instance.user()
    let bob = try await instance.user("bob", id: 11)
    let asking = try await Asking(instance)
    let other = try await Asking(instance)
    // An app password opens no further door, nor does another's key.
    for (login, key) in [
      ("alice", app.password), ("alice", bob.apiKey), ("nobody", app.apiKey), ("", ""),
      ("\u{0}", app.apiKey),
      (String(repeating: "e\u{301}", count: 1500), app.apiKey),
    ] {
      #expect(try await asking.send([("login", login), ("key", key)]).status == 403)
    }
    let proof = try await other.signIn(app)
    let forged = proof.split(separator: ".")
    for wrong in [
      proof, "x", "..", "1.2.3", "\(app.user.id).9999999999999.AAAA",
      "\(bob.user.id).\(forged[1]).\(forged[2])", "\(forged[0]).\(forged[1])0.\(forged[2])",
    ] {
      let answer = try await asking.send([("proof", wrong)])
      #expect(answer.status == 403)
      #expect(answer.body.contains("Sign in again"))
    }
    #expect(try await asking.ask().status == 404)
    let late = try await asking.signIn(app)
    instance.clock.advance(601)
    #expect(try await asking.send([("proof", late)]).status == 403)
    #expect(try await asking.send([("proof", try await asking.signIn(app))]).status == 200)
    #expect(try await asking.ask().json["loginName"] == "alice")
  }

  @Test func `a flow is open for twenty minutes`() async throws {
    let app = try await instance.user()
    let asking = try await Asking(instance)
    let granted = try await Asking(instance)
    #expect(try await instance.loginFlows.grant(login: granted.token, user: app.user.id))
    instance.clock.advance(1199)
    #expect(try await asking.open().status == 200)
    #expect(try await instance.loginFlows.removeOld(limit: 10) == 0)
    instance.clock.advance(1)
    let page = try await asking.open()
    #expect(page.status == 404)
    #expect(page.body.contains("no longer valid"))
    #expect(try await asking.send([("login", "alice"), ("key", app.apiKey)]).status == 404)
    #expect(try await instance.loginFlows.grant(login: asking.token, user: app.user.id) == false)
    #expect(try await granted.ask().status == 404)
    #expect(try await instance.loginFlows.removeOld(limit: 10) == 2)
  }

  @Test func `neither secret is kept, and neither stands for the other`() async throws {
    let app = try await instance.user()
    let asking = try await Asking(instance)
    #expect(asking.token != asking.poll)
    #expect(try await instance.loginFlows.grant(login: asking.poll, user: app.user.id) == false)
    #expect(try await instance.loginFlows.grant(login: asking.token, user: app.user.id))
    #expect(try await instance.loginFlows.grant(login: asking.token, user: app.user.id) == false)
    #expect(try await instance.loginFlows.finish(poll: asking.token) == nil)
    let row = try await instance.database.read {
      try $0.query(Statement("SELECT poll_hash, login_hash, address_hash FROM nextcloud_login_flows")).first
    }
    for column in ["poll_hash", "login_hash", "address_hash"] { #expect(try row?.bytes(column).count == 32) }
    for token in ["", "x", "\u{0}"] {
      let answer = try await instance.call(
        .post, "/login/v2/poll", form: [("token", token)], isOCS: false, format: nil, base: "")
      #expect((answer.status, answer.body) == (404, "[]"))
    }
    let json = try await instance.call(
      .post, "/login/v2/poll", json: #"{"token":"\#(asking.poll)"}"#, isOCS: false, format: nil, base: "")
    #expect(json.json["loginName"] == "alice")
  }

  @Test func `a user with very many apps is told so, and the flow stays`() async throws {
    let app = try await instance.user()
    for _ in 1..<AccountStore.maximumAppPasswords { _ = try await instance.app(of: app.user) }
    let asking = try await Asking(instance)
    let proof = try await asking.signIn(app)
    let full = try await asking.send([("proof", proof)])
    #expect(full.status == 409)
    #expect(full.body.contains("Too many apps"))
    #expect(try await instance.accounts.removeAppPassword(app.appPassword, user: app.user.id))
    #expect(try await asking.send([("proof", proof)]).status == 200)
    // Another app was quicker: this one waits, and nothing of it is lost.
    let quicker = try await instance.app(of: app.user)
    #expect(try await asking.ask().status == 404)
    #expect(try await instance.accounts.removeAppPassword(quicker.appPassword, user: app.user.id))
    #expect(try await asking.ask().status == 200)
  }

  @Test func `so many flows are open at a time, tries to sign in made, questions asked`() async throws {
    let app = try await instance.user()
    var first: Asking?
    for _ in 0..<NextcloudLoginFlows.maximumOpenPerAddress {
      let asking = try await Asking(instance)
      first = first ?? asking
    }
    func open() async throws -> Int {
      try await instance.call(.post, "/login/v2", isOCS: false, format: nil, base: "").status
    }
    #expect(try await open() == 429)
    _ = try await instance.loginFlows.open(client: "Other", address: "192.0.2.7")
    let asking = try #require(first)
    for number in 0...20 {
      #expect(try await asking.send([("login", "alice"), ("key", "wrong \(number)")]).status == 403)
    }
    let held = try await asking.send([("login", "alice"), ("key", app.apiKey)])
    #expect(held.status == 429)
    #expect(held.body.contains("too many tries"))
    // One who signs in elsewhere has shown as much.
    let wrong = try await instance.call(
      .get, "cloud/user", headers: [.authorization: SignedIn.basic("alice", app.apiKey)])
    #expect(wrong.status == 429)
    instance.clock.advance(2)
    #expect(try await asking.send([("login", "alice"), ("key", app.apiKey)]).status == 200)
    for _ in 0..<600 { #expect(try await asking.ask().status == 404) }
    #expect(try await asking.ask().status == 429)
    instance.clock.advance(1200)
    #expect(try await open() == 200)
  }

  @Test func `while some have opened all flows that there may be, everybody else still gets one`()
    async throws
  {
    let app = try await instance.user()
    let (flows, database) = (instance.loginFlows, instance.database)
    func hashes() async throws -> [[UInt8]: Int] {
      let rows = try await database.read {
        try $0.query(Statement("SELECT address_hash FROM nextcloud_login_flows")).map {
          try $0.bytes("address_hash")
        }
      }
      return Dictionary(rows.map { ($0, 1) }, uniquingKeysWith: +)
    }
    // One that was granted long ago stays, though its address has most.
    let granted = try await flows.open(client: "Granted", address: "192.0.2.0")
    #expect(try await flows.grant(login: granted.login, user: app.user.id))
    let crowd = try #require(try await hashes().keys.first)
    let (all, time) = (NextcloudLoginFlows.maximumOpen, instance.clock.now)
    // A hundred addresses with 99 or 100 each, and that one with the rest.
    let milliseconds = Int64(time.timeIntervalSince1970 * 1000)
    let rows = (1..<all).map { number -> [Value] in
      let secret = withUnsafeBytes(of: Int64(number)) { Array($0) }
      let address: [UInt8] = number < 150 ? crowd : [UInt8(number % 100)]
      return [.bytes(secret), .bytes(address), .integer(milliseconds + Int64(number))]
    }
    try await database.write { connection in
      for row in rows {
        try connection.run(
          Statement(
            """
            INSERT INTO nextcloud_login_flows (poll_hash, login_hash, client, address_hash, created_at)
            VALUES ($1, $1, 'x', $2, $3)
            """, arguments: row))
      }
    }
    var opened: [NextcloudLoginFlows.Secrets] = []
    for number in 0..<60 {
      opened.append(try await flows.open(client: "x", address: "198.51.100.\(number)"))
    }
    let counts = try await hashes()
    #expect(counts.values.reduce(0, +) == all)
    // It alone gave way, down to what the others have.
    #expect(try #require(counts[crowd]) < 105)
    #expect(counts.values.max() ?? 0 < 105)
    for flow in opened { #expect(try await flows.find(login: flow.login) != nil) }
    #expect(try await flows.finish(poll: granted.poll) != nil)
  }
}
