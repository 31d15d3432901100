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
  private var instance: Instance { Fixture.current }

  private static let test = "apps/notifications/api/v3/test/self"

  @Test(.instance) func `who is not signed in is told so before all else`() async throws {
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

  @Test(.instance) func `a user's key is found by the name in the path, decoded and in either case`()
    async throws
  {
    let app = try await instance.user()
    let pem = try #require(try await app.register().data?["publicKey"]?.string)
    #expect(try await instance.call(.get, "identityproof/key/ALICE").data?["public"]?.string == pem)
    for name in ["alice%40example.org", "%00", "%"] {
      let answer = try await instance.call(.get, "identityproof/key/\(name)")
      #expect(answer.status == 404)
      #expect(answer.data == ["Account not found"])
    }
    let (dotted, _, _) = try await instance.accounts.put(
      .init(email: "x@example.org", username: "x@y.z"), userID: 20, realm: instance.realm.uuid)
    let pemOfDotted = try await instance.keys.key(of: dotted.id).publicKey.pem
    #expect(
      try await instance.call(.get, "identityproof/key/x%40y.z").data?["public"]?.string == pemOfDotted)
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

  @Test(.instance) func `an endpoint that is not there is told so in the envelope`() async throws {
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

  @Test(.instance) func `who tries app passwords is held up before anything of the call is read`()
    async throws
  {
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
