import Foundation
import HTTP
import HTTPTypes
import Registrations
import Sealing
import TestService
import TestSupport
import Testing

@testable import NextcloudServer

/// `Documentation/Protocols/Nextcloud.md` 5.1, 5.2.
@Suite struct OCSTests {
  private static let test = "apps/notifications/api/v3/test/self"

  @Test func `who is not signed in is told so before all else`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      let wrong = [
        nil, "Basic", "Basic x", "Bearer", "Bearer x", SignedIn.basic("alice", "wrong"),
        SignedIn.basic("bob", app.password), SignedIn.basic("alice", String(repeating: "a", count: 32)),
        SignedIn.basic("", ""), "Digest x",
      ]
      for authorization in wrong {
        for isOCS in [true, false] {
          var headers: HTTPFields = [:]
          headers[.authorization] = authorization
          for (method, path): (HTTPRequest.Method, String) in [
            (.post, SignedIn.push), (.delete, SignedIn.push), (.post, SignedIn.draft),
            (.delete, SignedIn.draft),
            (.post, Self.test), (.get, "apps/notifications/api/v2/notifications"),
            (.post, Browser.path), (.get, "cloud/users/alice"),
          ] {
            let answer = try await instance.call(method, path, headers: headers, isOCS: isOCS)
            #expect(answer.status == 401)
            #expect(
              answer.body
                == #"{"ocs":{"meta":{"status":"failure","statuscode":997,"message":"Current user is not logged in"},"data":[]}}"#
            )
          }
        }
      }
    }
  }

  @Test func `a method that an endpoint does not have is refused without a body`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      for (method, path): (HTTPRequest.Method, String) in [
        (.put, SignedIn.push), (.delete, Self.test), (.post, "cloud/capabilities"), (.patch, "cloud/user"),
      ] {
        for base in ["/ocs/v1.php", "/ocs/v2.php"] {
          let answer = try await instance.call(method, path, headers: app.headers(), base: base)
          #expect((answer.status, answer.body) == (405, ""))
          #expect(answer.headers[.allow] != nil && answer.headers[.contentType] == nil)
        }
      }
    }
  }

  @Test func `a call without the header may be a forgery`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      for path in [SignedIn.push, Self.test] {
        let answer = try await instance.call(.post, path, headers: app.headers(), isOCS: false)
        #expect((answer.status, answer.body) == (412, #"{"message":"CSRF check failed"}"#))
      }
      for path in ["cloud/capabilities", "identityproof/key/alice"] {
        #expect(try await instance.call(.get, path, isOCS: false).status == 412)
      }
      var headers = app.headers()
      headers[.ocsAPIRequest] = ""
      #expect(try await instance.call(.delete, SignedIn.push, headers: headers, isOCS: false).status == 412)
      headers[.ocsAPIRequest] = "1"
      #expect(try await instance.call(.delete, SignedIn.push, headers: headers, isOCS: false).status == 200)
    }
  }

  @Test func `an app signs in by username or email, with its app password, also as a bearer`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      for login in ["alice", "ALICE", "alice@example.org", "Alice@Example.org"] {
        let headers: HTTPFields = [.authorization: SignedIn.basic(login, app.password)]
        #expect(try await instance.call(.delete, SignedIn.push, headers: headers).status == 200)
        let byKey: HTTPFields = [.authorization: SignedIn.basic(login, app.apiKey)]
        #expect(
          try await instance.call(.delete, SignedIn.push, headers: byKey).code == "INVALID_SESSION_TOKEN")
      }
      let bearer: HTTPFields = [.authorization: "Bearer \(app.password)"]
      #expect(try await instance.call(.delete, SignedIn.push, headers: bearer, isOCS: false).status == 200)
    }
  }

  @Test func `an answer is XML unless JSON is wanted`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      let xml = """
        <?xml version="1.0"?>
        <ocs>
         <meta>
          <status>failure</status>
          <statuscode>400</statuscode>
          <message></message>
         </meta>
         <data>
          <message>INVALID_PUSHTOKEN_HASH</message>
         </data>
        </ocs>

        """
      func ask(_ format: String?, accept: String?) async throws -> Instance.Answer {
        var headers = app.headers()
        headers[.accept] = accept
        return try await instance.call(.post, SignedIn.push, headers: headers, format: format)
      }
      for (format, accept): (String?, String?) in [
        (nil, nil), ("xml", nil), ("xml", "application/json"), (nil, "*/*"),
        (nil, "text/html,application/xml"),
        (nil, "application/xml, application/json"), ("other", "application/json"),
      ] {
        let answer = try await ask(format, accept: accept)
        #expect(answer.status == 400)
        #expect(answer.headers[.contentType] == "application/xml; charset=utf-8")
        #expect(answer.body == xml)
      }
      for (format, accept): (String?, String?) in [
        ("json", nil), ("json", "application/xml"), (nil, "application/json"),
        (nil, "text/html, application/json;q=0.9"), (nil, "application/json,application/xml"),
      ] {
        let answer = try await ask(format, accept: accept)
        #expect(answer.headers[.contentType] == "application/json; charset=utf-8")
        #expect(
          answer.body
            == #"{"ocs":{"meta":{"status":"failure","statuscode":400,"message":""},"data":{"message":"INVALID_PUSHTOKEN_HASH"}}}"#
        )
      }
    }
  }

  @Test func `values are written as PHP writes them`() {
    let value: JSON = ["a": [true, false, 7, "<&>\"\u{1}"], "b": [], "c": nil, "d": ""]
    #expect(
      String(decoding: OCSXML.document(value), as: UTF8.self) == """
        <?xml version="1.0"?>
        <ocs>
         <a>
          <element>1</element>
          <element></element>
          <element>7</element>
          <element>&lt;&amp;&gt;&quot;\u{FFFD}</element>
         </a>
         <b/>
         <c/>
         <d></d>
        </ocs>

        """)
    #expect(
      String(decoding: JSON.string("a/b\n").php(hexTags: true), as: UTF8.self) == #""a\/b\n""#)
  }

  @Test func `capabilities tell those who are signed in how to register`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      let answer = try await app.call(.get, "cloud/capabilities")
      #expect(answer.status == 200)
      #expect(answer.data?["version"]?["major"]?.integer == 35)
      #expect(answer.data?["version"]?["string"]?.string == "35.0.0")
      let notifications = answer.data?["capabilities"]?["notifications"]
      #expect(notifications?["push"] == ["devices", "object-data", "delete", "webpush"])
      #expect(
        notifications?["ocs-endpoints"] == [
          "list", "get", "delete", "delete-all", "icons", "rich-strings", "action-web", "user-status",
          "exists",
          "test-push", "push",
        ])
      #expect(notifications?["admin-notifications"] == ["ocs", "cli"])
      let stranger = try await instance.call(.get, "cloud/capabilities")
      #expect(stranger.status == 200)
      #expect(stranger.data?["version"] == answer.data?["version"])
      #expect(stranger.data?["capabilities"]?["notifications"] == nil)
      // Doubled slashes, as some clients make them.
      #expect(try await instance.call(.get, "/cloud//capabilities").status == 200)
    }
  }

  @Test func `anybody may know a user's key, which is made when the user first needs it`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      let another = try await instance.user("bob", id: 11)
      for _ in 0..<2 {
        #expect(try await instance.call(.get, "identityproof/key/alice").status == 404)
        #expect(try await another.call(.get, "identityproof/key/alice").status == 404)
      }
      #expect(try await app.call(.get, "identityproof/key/alice").status == 200)
      let answer = try await instance.call(.get, "identityproof/key/alice")
      #expect(answer.status == 200)
      let pem = try #require(answer.data?["public"]?.string)
      #expect(pem.utf8.count == 451)
      #expect(try await app.register().data?["publicKey"]?.string == pem)
      #expect(try await instance.call(.get, "identityproof/key/ALICE").data?["public"]?.string == pem)
      for name in ["nobody", "alice%40example.org", "%00", "%"] {
        let answer = try await instance.call(.get, "identityproof/key/\(name)")
        #expect(answer.status == 404)
        #expect(answer.data == ["Account not found"])
      }
      let (dotted, _, _) = try await instance.accounts.put(
        .init(email: "x@example.org", username: "x@y.z"), userID: 20, realm: instance.realm.uuid)
      let pemOfDotted = try await instance.keys.key(of: dotted.id).publicKey.pem
      #expect(
        try await instance.call(.get, "identityproof/key/x%40y.z").data?["public"]?.string
          == pemOfDotted)
    }
  }

  @Test func `v1 says the same in its own way: HTTP's 200, and 100 for what is 200 there`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      let base = "/ocs/v1.php"
      func meta(_ status: String, _ code: Int64, _ message: String) -> JSON {
        [
          "status": .string(status), "statuscode": .integer(code), "message": .string(message),
          "totalitems": "", "itemsperpage": "",
        ]
      }
      let capabilities = try await app.call(.get, "cloud/capabilities", base: base)
      #expect(capabilities.status == 200)
      #expect(capabilities.meta == meta("ok", 100, "OK"))
      #expect(capabilities.data == (try await app.call(.get, "cloud/capabilities").data))
      // What is 201 and 202 there has no success of its own here.
      let registered = try await app.call(.post, SignedIn.push, SignedIn.form(), base: base)
      #expect((registered.status, registered.meta) == (200, meta("failure", 201, "")))
      #expect(registered.data?["deviceIdentifier"] != nil)
      let unregistered = try await app.call(.delete, SignedIn.push, base: base)
      #expect((unregistered.status, unregistered.meta) == (200, meta("failure", 202, "")))
      let again = try await app.call(.delete, SignedIn.push, base: base)
      #expect((again.status, again.meta) == (200, meta("ok", 100, "OK")))
      let refused = try await app.call(.post, SignedIn.push, base: base)
      #expect((refused.status, refused.meta) == (200, meta("failure", 400, "")))
      #expect(refused.code == "INVALID_PUSHTOKEN_HASH")
      let stranger = try await instance.call(.delete, SignedIn.push, base: base)
      #expect(stranger.status == 401)
      #expect(stranger.meta == meta("failure", 997, "Current user is not logged in"))
      let forged = try await instance.call(
        .delete, SignedIn.push, headers: app.headers(), isOCS: false, base: "/ocs//v1.php/")
      #expect((forged.status, forged.body) == (412, #"{"message":"CSRF check failed"}"#))
      let xml = try await instance.call(.get, "identityproof/key/nobody", format: nil, base: "/" + base)
      #expect(xml.status == 200)
      #expect(
        xml.body.contains("<statuscode>404</statuscode>\n  <message></message>\n  <totalitems></totalitems>"))
    }
  }

  @Test func `an endpoint that is not there is told so in the envelope`() async throws {
    try await Instance.test { instance in
      for path in [
        "apps/spreed/api/v4/room", "cloud", "nothing", "/cloud//nothing", "cloud/capabilities/more",
      ] {
        let answer = try await instance.call(.get, path)
        #expect((answer.status, answer.meta?["statuscode"]?.integer) == (404, 998))
        #expect(answer.data == [])
        let old = try await instance.call(.post, path, isOCS: false, base: "/ocs/v1.php")
        #expect((old.status, old.meta?["statuscode"]?.integer) == (200, 998))
        #expect(old.meta?["status"] == "failure")
      }
      let xml = try await instance.call(.get, "nothing", format: nil)
      #expect(xml.body.contains("<statuscode>998</statuscode>"))
      let accepting = try await instance.call(
        .get, "nothing", headers: [.accept: "application/json"], format: nil)
      #expect(accepting.meta?["statuscode"]?.integer == 998)
      for base in ["/ocs/v3.php", "/ocs", "/elsewhere"] {
        let answer = try await instance.call(.get, "nothing", base: base)
        #expect((answer.status, answer.json["msg"]) == (404, "Not found"))
      }
    }
  }

  @Test func `an app whose password is gone hears so from the capabilities too`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      #expect(try await app.call(.get, "cloud/capabilities").status == 200)
      #expect(try await instance.accounts.removeAppPassword(app.appPassword, user: app.user.id))
      for path in ["cloud/capabilities", "identityproof/key/alice"] {
        for base in ["/ocs/v1.php", "/ocs/v2.php"] {
          let answer = try await app.call(.get, path, base: base)
          #expect((answer.status, answer.meta?["statuscode"]?.integer) == (401, 997))
        }
      }
      for authorization in [SignedIn.basic("alice", "wrong"), "Bearer wrong", "Basic x", "Digest x"] {
        let answer = try await instance.call(
          .get, "cloud/capabilities", headers: [.authorization: authorization])
        #expect((answer.status, answer.meta?["statuscode"]?.integer) == (401, 997))
      }
    }
  }

  @Test func `a user has so many calls, and so has an address of strangers`() async throws {
    try await Instance.test([
      "server.rate_limit.per_user": "2/60s", "http.rate_limit.per_address": "3/60s",
    ]) { instance in
      let app = try await instance.user()
      let bob = try await instance.user("bob", id: 11)
      _ = try await instance.keys.key(of: app.user.id)
      for _ in 0..<2 { #expect(try await app.call(.delete, SignedIn.push).status == 200) }
      let answer = try await app.call(.delete, SignedIn.push)
      #expect(answer.status == 429)
      #expect(answer.meta?["statuscode"]?.integer == 429)
      #expect(answer.headers[.retryAfter] == "60.0")
      #expect(try await bob.call(.delete, SignedIn.push).status == 200)
      for _ in 0..<2 { #expect(try await instance.call(.get, "identityproof/key/alice").status == 200) }
      #expect(try await instance.call(.delete, SignedIn.push).status == 401)
      for path in ["identityproof/key/alice", "cloud/capabilities"] {
        #expect(try await instance.call(.get, path).status == 429)
      }
      #expect(try await instance.call(.delete, SignedIn.push).status == 429)
      instance.clock.advance(60)
      #expect(try await app.call(.delete, SignedIn.push).status == 200)
      #expect(try await instance.call(.get, "identityproof/key/alice").status == 200)
    }
  }

  @Test func `who tries app passwords is held up before anything of the call is read`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      func call(_ authorization: String, from address: String, form: [(String, String)]? = nil) async throws
        -> Instance.Answer
      {
        var headers: HTTPFields = [.authorization: authorization]
        headers[.xForwardedFor] = address
        return try await instance.call(.post, SignedIn.push, form: form, headers: headers)
      }
      for number in 0...20 {
        let secret = number % 2 == 0 ? "Bearer \(number)" : SignedIn.basic("alice", "\(number)")
        let answer = try await call(secret, from: "192.0.2.1")
        #expect((answer.status, answer.meta?["statuscode"]?.integer) == (401, 997))
      }
      // Larger than what is read of any: it is not.
      let large = [("a", String(repeating: "x", count: 2 << 20))]
      let right = SignedIn.basic("alice", app.password)
      for authorization in [right, "Bearer \(app.password)", "Bearer x"] {
        let answer = try await call(authorization, from: "192.0.2.1", form: large)
        #expect(answer.status == 429)
        #expect(answer.meta?["statuscode"]?.integer == 429)
        #expect(answer.headers[.retryAfter] == "2.0")
      }
      #expect(try await call(right, from: "192.0.2.2").status == 400)
      #expect(try await call(right, from: "192.0.2.2", form: large).status == 413)
      instance.clock.advance(2)
      #expect(try await call(right, from: "192.0.2.1").status == 400)
    }
  }

  @Test func `a body that is refused is refused in the envelope`() async throws {
    try await Instance.test(bodies: BodyBudget(limit: 2 << 20, largest: 1 << 20)) { instance in
      let app = try await instance.user()
      let headers: HTTPFields = [.authorization: SignedIn.basic("alice", app.password)]
      let tooLong = [("a", String(repeating: "x", count: 1 << 20))]
      for (version, status) in [("v2", 413), ("v1", 200)] {
        let answer = try await instance.call(
          .post, SignedIn.push, form: tooLong, headers: headers, base: "/ocs/\(version).php")
        #expect((answer.status, answer.meta?["statuscode"]?.integer) == (status, 413))
        #expect(answer.meta?["status"]?.string == "failure")
      }
    }
    // No room for any.
    try await Instance.test(bodies: BodyBudget(limit: 0, largest: 0)) { instance in
      let app = try await instance.user()
      let headers: HTTPFields = [.authorization: SignedIn.basic("alice", app.password)]
      for version in ["v2", "v1"] {
        let answer = try await instance.call(
          .post, SignedIn.push, form: [("a", "b")], headers: headers, base: "/ocs/\(version).php")
        #expect((answer.status, answer.meta?["statuscode"]?.integer) == (503, 503))
        #expect(answer.headers[.retryAfter] == "5")
      }
    }
  }
}
