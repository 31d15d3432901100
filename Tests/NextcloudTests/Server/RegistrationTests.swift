import Foundation
import HTTP
import HTTPTypes
import Registrations
import SQL
import Sealing
import Server
import TestService
import TestSupport
import Testing
import ZulipServer

@testable import NextcloudServer

/// `Documentation/Protocols/Nextcloud.md` 5.2 to 5.4.
@Suite struct PushRegistrationTests {
  private static let hash = String(repeating: "0123456789abcdef", count: 8)

  @Test func `a phone learns the user's key and its own identity, which it can check`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      let answer = try await app.register()
      #expect(answer.status == 201)
      #expect(answer.meta?["status"]?.string == "ok")
      #expect(answer.meta?["statuscode"]?.integer == 201)
      #expect(answer.meta?["message"]?.string == "OK")
      let pem = try #require(answer.data?["publicKey"]?.string)
      #expect(pem.utf8.count == 451 && pem.hasSuffix("-----END PUBLIC KEY-----\n"))
      let identifier = try #require(answer.data?["deviceIdentifier"]?.string.flatMap(Base64.decodeStrictly))
      let signature = try #require(answer.data?["signature"]?.string.flatMap(Base64.decodeStrictly))
      #expect((identifier.count, signature.count) == (64, 256))
      // As a proxy checks it, and as the preimage says.
      let key = try RSAPublicKey(pem: pem)
      #expect(key.verifies(signature, digest: identifier))
      let preimage = #"["alice@cloud.example.org\/nextcloud",\#(app.appPassword)]"#
      #expect(key.verifies(signature, of: Array(preimage.utf8)))
      let kept = try #require(try await app.registration()).description
      #expect(kept.deviceIdentifier == answer.data?["deviceIdentifier"]?.string)
      #expect((kept.proxyServer, kept.user) == ("https://push.example.org", app.user.id))
    }
  }

  @Test func `the same again is nothing new, a change is`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      let first = try await app.register(token: "a")
      #expect(first.status == 201)
      instance.clock.advance(1)
      let second = try await app.register(token: "a")
      #expect(second.status == 200)
      #expect(second.data == first.data)
      #expect(try await app.registration()?.registeredAt == instance.clock.now)
      #expect(try await app.register(token: "b").status == 201)
      #expect(try await app.register(token: "b", proxy: "https://push.example.org/").status == 201)
      let other = try Vectors.load().otherUserPublicKey
      #expect(
        try await app.register(token: "b", proxy: "https://push.example.org/", key: other).status == 201)
      #expect(
        try await app.register(
          token: "b", proxy: "https://push.example.org/", key: other, userAgent: SignedIn.talk
        ).status == 201)
      #expect(try await app.registration()?.description.appKind == .talk)
      #expect(try await instance.registrations.count() == 1)
    }
  }

  @Test func `a phone that has signed in anew leaves nothing of itself behind`() async throws {
    try await Instance.test { instance in
      let old = try await instance.user()
      let new = try await instance.app(of: old.user)
      let others = try await instance.user("bob", id: 11)
      for app in [old, others, new] { try await app.register(token: "the same") }
      #expect(try await old.registration() == nil)
      #expect(try await new.registration() != nil)
      #expect(try await others.registration() != nil)
    }
  }

  @Test func `the first thing that is wrong is told`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      let key = try Vectors.load().devicePublicKey
      let keyCall = SignedIn.basic(app.user.username, app.apiKey)
      func refusal(_ hash: String?, _ key: String?, _ proxy: String?) async throws -> String? {
        let fields = [("pushTokenHash", hash), ("devicePublicKey", key), ("proxyServer", proxy)]
        // With an API key, so that what comes last is always wrong.
        let answer = try await instance.call(
          .post, SignedIn.push, form: fields.compactMap { name, value in value.map { (name, $0) } },
          headers: [.authorization: keyCall])
        #expect(answer.status == 400)
        #expect(answer.meta?["status"]?.string == "failure")
        #expect(answer.meta?["statuscode"]?.integer == 400)
        #expect(answer.meta?["message"]?.string == "")
        return answer.code
      }
      let proxy = "https://push.example.org"
      let badHash = "INVALID_PUSHTOKEN_HASH"
      for hash in [
        nil, "", Self.hash.uppercased(), String(Self.hash.dropLast()), Self.hash + "0", Self.hash + "\n",
        " " + Self.hash.dropFirst(), "g" + Self.hash.dropFirst(),
      ] {
        #expect(try await refusal(hash, nil, nil) == badHash)
        #expect(try await refusal(hash, key, proxy) == badHash)
      }
      let body = key.dropFirst(27).prefix(398)
      for key in [
        nil, "", key.replacing("\n", with: "\r\n"), key + "\n", " " + key, String(key.dropLast(2)),
        key.replacing("\n", with: ""), key.replacing("PUBLIC", with: "public"),
        "-----BEGIN PUBLIC KEY-----\n\(body.dropLast())é-----END PUBLIC KEY-----",
        "-----BEGIN PUBLIC KEY-----\n\(body.dropLast())\u{0}\n-----END PUBLIC KEY-----",
      ] {
        #expect(try await refusal(Self.hash, key, "x") == "INVALID_DEVICE_KEY")
      }
      for proxy in [nil, "", "http://push.example.org/"] {
        #expect(try await refusal(Self.hash, key, proxy) == "INVALID_PROXY_SERVER")
      }
      #expect(try await refusal(Self.hash, key, proxy) == "INVALID_SESSION_TOKEN")
      #expect(try await refusal(Self.hash, String(key.dropLast()), proxy) == "INVALID_SESSION_TOKEN")
      #expect(try await instance.registrations.count() == 0)
    }
  }

  @Test func `a key in form only is a key here`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      let key = try Vectors.load().devicePublicKey
      #expect(try await app.register(key: String(key.dropLast())).status == 201)
      #expect(try await app.registration()?.description.deviceKey.utf8.count == 450)
      let nonsense = String(
        key.unicodeScalars.map { $0 == "M" ? "!" : Character($0) })
      #expect(try await app.register(key: nonsense.replacing("!II", with: "MII")).status == 201)
    }
  }

  @Test func `bodies are forms or JSON, and fields may come in the query`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      let form = try SignedIn.form()
      let json = JSON.object(JSON.Object(form.map { .init($0.0, .string($0.1)) })).text
      for type in ["application/json", "application/json; charset=utf-8", "application/vnd.x+json"] {
        var headers = app.headers()
        headers[.contentType] = type
        #expect(try await instance.call(.post, SignedIn.push, json: json, headers: headers).status < 300)
      }
      // As Talk on Android sends it.
      let talk = try await instance.call(
        .post, SignedIn.push, form: form + [("format", "json")], headers: app.headers(SignedIn.talk),
        format: nil)
      #expect(talk.json["ocs"] != nil)
      #expect(talk.status == 201)
      let query = String(decoding: Form.encode(form.map { ($0, $1) }), as: UTF8.self)
      #expect(
        try await instance.call(
          .post, "\(SignedIn.push)?\(query)&format=json", headers: app.headers(SignedIn.talk), format: nil
        ).status == 200)
      for broken in ["{", "[]", "\"x\"", "{\"pushTokenHash\":[1]}"] {
        let answer = try await instance.call(.post, SignedIn.push, json: broken, headers: app.headers())
        #expect(answer.code == "INVALID_PUSHTOKEN_HASH")
      }
    }
  }

  @Test(
    arguments: [
      ("Mozilla/5.0 (Android) Nextcloud-Talk v20.0.0", .talk),
      ("Mozilla/5.0 (iOS) Nextcloud-Talk v19.1 (Strict VoIP)", .talk),
      ("Mozilla/5.0 (Android) Nextcloud-android/3.30.0", .files),
      ("Mozilla/5.0 (Android) ownCloud-android/2.0", .files),
      ("Mozilla/5.0 (iOS) Nextcloud-iOS/6.0", .files), ("Mozilla/5.0 (iOS) ownCloud-iOS/1", .files),
      ("Mozilla/5.0 (Windows) Nextcloud-Talk v1", .unknown),
      ("Mozilla/5.0 (Android) F7cloud-Talk v1", .unknown),
      ("x Mozilla/5.0 (Android) Nextcloud-Talk v1", .unknown), ("", .unknown),
    ] as [(String, NextcloudRegistration.AppKind)])
  func `the kind of app is by its name`(agent: String, kind: NextcloudRegistration.AppKind) {
    #expect(NextcloudRegistration.AppKind(userAgent: agent) == kind)
  }

  @Test func `who leaves is told whether it was there`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      let nothing = try await app.call(.delete, SignedIn.push)
      #expect((nothing.status, nothing.data) == (200, []))
      try await app.register()
      let done = try await app.call(.delete, SignedIn.push)
      #expect((done.status, done.data) == (202, []))
      #expect(done.meta?["statuscode"]?.integer == 202)
      #expect(try await app.registration() == nil)
      let wrong = try await instance.call(
        .delete, SignedIn.push,
        headers: [.authorization: SignedIn.basic(app.user.email, app.apiKey)])
      #expect((wrong.status, wrong.code) == (400, "INVALID_SESSION_TOKEN"))
    }
  }

  @Test func `registrations go with their app password and with their user`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      let second = try await instance.app(of: app.user)
      try await app.register()
      try await second.register()
      #expect(try await instance.accounts.removeAppPassword(app.appPassword, user: app.user.id))
      #expect(try await app.registration() == nil)
      #expect(try await app.register().status == 401)
      #expect(try await instance.registrations.count() == 1)
      try await instance.test.service.store.devices().remove(user: app.user.id)
      #expect(try await instance.registrations.count() == 0)
    }
  }

  @Test func `an app password's id is given once`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      let before = try await app.register().data?["deviceIdentifier"]
      #expect(try await instance.accounts.removeAppPassword(app.appPassword, user: app.user.id))
      let next = try await instance.app(of: app.user)
      #expect(next.appPassword > app.appPassword)
      #expect(try await next.register().data?["deviceIdentifier"] != before)
    }
  }

  @Test func `an app password that is removed meanwhile registers nothing`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      _ = try await instance.accounts.removeAppPassword(app.appPassword, user: app.user.id)
      let description = NextcloudRegistration.Description(
        user: app.user.id, appPassword: app.appPassword, deviceIdentifier: "", deviceKey: "",
        pushTokenHash: "", proxyServer: "", appKind: .talk)
      await #expect(throws: NextcloudRegistrations.UnknownAppPassword.self) {
        try await instance.registrations.put(description)
      }
    }
  }

  @Test func `the draft of 2017 names no proxy when it registers and its key when it leaves`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      let key = String(try Vectors.load().devicePublicKey.dropLast())
      let form = [("pushTokenHash", Self.hash), ("devicePublicKey", key)]
      #expect(
        try await app.call(.post, SignedIn.draft, [("devicePublicKey", key)]).code == "INVALID_PUSHTOKEN_HASH"
      )
      #expect(try await app.call(.post, SignedIn.draft, [form[0]]).code == "INVALID_DEVICE_KEY")
      let first = try await app.call(.post, SignedIn.draft, form)
      #expect(first.status == 201)
      #expect(first.data?["deviceIdentifier"]?.string?.utf8.count == 88)
      #expect(try await app.call(.post, SignedIn.draft, form).status == 200)
      let kept = try #require(try await app.registration()).description
      #expect(kept.proxyServer == "https://push.default.example.org")
      #expect(kept.proxyURL == "https://push.default.example.org")
      #expect(
        try await app.call(
          .post, SignedIn.draft, [("pushTokenHash", SignedIn.hash("other")), ("devicePublicKey", key)]
        ).status == 201)

      let other = [("devicePublicKey", try Vectors.load().otherUserPublicKey)]
      #expect(try await app.call(.delete, SignedIn.draft, other).code == "INVALID_DEVICE_KEY")
      #expect(try await app.call(.delete, SignedIn.draft).code == "INVALID_DEVICE_KEY")
      let withoutToken = try await instance.call(
        .delete, SignedIn.draft, form: [("devicePublicKey", key)],
        headers: [.authorization: SignedIn.basic(app.user.username, app.apiKey)])
      #expect(withoutToken.code == "INVALID_SESSION_TOKEN")
      #expect(try await app.registration() != nil)
      // With the newline that it was registered without.
      #expect(try await app.call(.delete, SignedIn.draft, [("devicePublicKey", key + "\n")]).status == 202)
      #expect(try await app.registration() == nil)
      #expect(
        try await app.call(.delete, SignedIn.draft, [("devicePublicKey", key)]).code == "INVALID_DEVICE_KEY")
    }
  }
}

/// `Documentation/Protocols/Nextcloud.md` 5.4.
@Suite struct ProxyAddressTests {
  @Test(
    arguments: [
      ("https://push-notifications.nextcloud.com", true, true),
      ("https://push-notifications.nextcloud.com/", true, true),
      ("https://push.example.org:8443/path?x=1", true, true), ("https://push.example.org/#", true, true),
      ("HTTPS://push.example.org/", false, false), ("http://push.example.org/", false, true),
      ("http://localhost", false, true), ("http://localhost:8088", false, true),
      ("http://localhost/", false, true), ("http://localhost:8088/", false, true),
      ("http://push.internal/", false, true), ("http://push.local:9000/x", false, true),
      ("https://192.168.1.4/", false, true), ("https://[::1]/", false, true),
      ("https://localhost/nextcloud", false, true), ("https://intranet/", false, true),
      ("https://push.local/", false, true), ("https://push.home/", false, true),
      ("https://push.corp/", false, true), ("https://push.lan", false, true),
      ("https://push.private", false, true), ("https://push.intranet", false, true),
      ("https://push.LOCALHOST./", false, true), ("https://127.1/", false, true),
      ("https://2130706433/", false, true), ("https://0x7f.0.0.0x1/", false, true),
      ("https://[::ffff:10.0.0.1]/", false, true), ("https://169.254.169.254/", false, true),
      ("https://8.8.8.8/", true, true), ("https://[2606:4700::1111]/", true, true),
      ("ftp://push.example.org/", false, false), ("https://", false, false), ("https:///x", false, false),
      ("https://bücher.example.org/", false, false), ("https://push.example.org/ x", false, false),
      ("https://push_1.example.org/", false, false), ("https://-push.example.org/", false, false),
      ("https://push..example.org/", false, false), ("https://push.example.org:99999/", false, false),
      ("push.example.org", false, false), ("", false, false), ("https://push.example.org/\n", false, false),
    ])
  func `a proxy is an https address of a public host`(url: String, isValid: Bool, isValidLocally: Bool) {
    #expect(ProxyAddress.isValid(url, allowsLocal: false) == isValid)
    #expect(ProxyAddress.isValid(url, allowsLocal: true) == isValidLocally)
  }

  @Test func `its address has an end`() {
    let longest = "https://push.example.org/" + String(repeating: "a", count: 231)
    #expect(longest.utf8.count == 256)
    #expect(ProxyAddress.isValid(longest, allowsLocal: false))
    #expect(!ProxyAddress.isValid(longest + "a", allowsLocal: false))
    #expect(!ProxyAddress.isValid(longest + "a", allowsLocal: true))
  }

  @Test(arguments: [
    ("https://a.org", "https://a.org"), ("https://a.org/", "https://a.org"),
    ("https://a.org/x//", "https://a.org/x"),
    ("https://a.org/#", "https://a.org/#"), ("//", ""), ("", ""),
  ])
  func `its slashes are trimmed`(given: String, trimmed: String) {
    #expect(NextcloudRegistration.trimmed(given) == trimmed)
  }
}
