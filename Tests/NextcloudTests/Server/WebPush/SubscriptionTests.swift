import Foundation
import HTTP
import HTTPTypes
import Registrations
import SQL
import Sealing
import TestService
import TestSupport
import Testing

@testable import NextcloudServer

/// `Documentation/Protocols/Nextcloud.md` 5.6.
@Suite struct SubscriptionTests {
  private func test(
    _ settings: [String: String] = [:], _ test: @escaping @Sendable (Instance) async throws -> Void
  ) async throws {
    try await Instance.test(Instance.localPushServices.merging(settings) { $1 }, test)
  }

  @Test func `everybody who has signed in learns the one key that subscriptions are bound to`() async throws {
    try await test { instance in
      let (alice, bob) = (try await instance.user(), try await instance.user("bob", id: 11))
      let path = "\(Browser.path)/vapid"
      let first = try await alice.call(.get, path)
      #expect(first.status == 200)
      let key = try #require(first.data?["vapid"]?.string)
      #expect(key.utf8.count == 87)
      #expect(try await bob.call(.get, path, base: "/ocs/v1.php").data?["vapid"]?.string == key)
      #expect(try await instance.call(.get, path).meta?["statuscode"]?.integer == 997)
    }
  }

  @Test func `a subscription becomes active by the token that was sent to it, and by no other`() async throws
  {
    try await test { instance in
      let app = try await instance.user()
      let browser = Browser(app)
      #expect(try await browser.activate("anything").status == 404)
      let answer = try await browser.subscribe()
      #expect(answer.status == 201)
      #expect(answer.data == [])
      let wrong = try await browser.activate(UUID().uuidString.lowercased())
      #expect((wrong.status, wrong.code) == (400, "INVALID_ACTIVATION_TOKEN"))
      #expect(try await browser.activate("").code == "INVALID_ACTIVATION_TOKEN")
      #expect(try await instance.active(app) == [])
      // It is not active: the same again is a new one.
      #expect(try await browser.subscribe().status == 201)
      let token = try #require(try await browser.put(appPassword: app.appPassword))
      #expect(try await browser.activate(token.uppercased()).status == 400)
      #expect(try await browser.activate(token).status == 202)
      #expect(try await browser.activate(token).status == 200)
      #expect(try await browser.activate("anything").status == 200)
      #expect(try await instance.active(app) == ["all"])
      #expect(try await instance.counts() == [1, 1])
    }
  }

  @Test func `an active one that comes again only changes what it is for`() async throws {
    try await test { instance in
      let app = try await instance.user()
      let browser = Browser(app)
      let token = try #require(try await browser.put(appPassword: app.appPassword))
      #expect(try await browser.activate(token).status == 202)
      let before = try #require(try await instance.webPush.subscriptions.active(of: app.user.id).first)
      instance.clock.advance(1)
      let again = try await browser.subscribe(appTypes: "all,-files")
      #expect((again.status, again.data) == (200, []))
      let after = try #require(try await instance.webPush.subscriptions.active(of: app.user.id).first)
      #expect((after.id, after.appTypes.text) == (before.id, "all,-files"))
      #expect(after.registeredAt > before.registeredAt)
      // Padding makes no difference.
      var form = browser.form(appTypes: "talk")
      form[1].1 += "="
      form[2].1 += "=="
      #expect(try await app.call(.post, Browser.path, form).status == 200)
      #expect(try await instance.active(app) == ["talk"])
      // Other keys at the same endpoint are another subscription, and so is another endpoint.
      #expect(try await Browser(app, endpoint: browser.endpoint).subscribe().status == 201)
      #expect(try await instance.active(app) == [])
      #expect(try await Browser(app).subscribe().status == 201)
      #expect(try await instance.counts() == [1, 0])
    }
  }

  @Test(arguments: ["nextcloud.webpush", "webpush.enabled"])
  func `where it is switched off, that is told to who has signed in, and everybody may still leave`(
    setting: String
  ) async throws {
    try await test([setting: "false"]) { instance in
      let app = try await instance.user()
      let browser = Browser(app)
      for (path, form) in [(Browser.path, browser.form()), ("\(Browser.path)/activate", [])] {
        for base in ["/ocs/v2.php", "/ocs/v1.php"] {
          let stranger = try await instance.call(.post, path, form: form, base: base)
          #expect((stranger.status, stranger.meta?["statuscode"]?.integer) == (401, 997))
          // Before anything of what the app has sent is looked at.
          for form in [form, []] {
            let answer = try await app.call(.post, path, form, base: base)
            #expect(answer.status == (base == "/ocs/v2.php" ? 403 : 200))
            #expect((answer.meta?["statuscode"]?.integer, answer.code) == (403, "WEBPUSH_DISABLED"))
          }
        }
      }
      let vapid = try await app.call(.get, "\(Browser.path)/vapid")
      #expect(vapid.status == (setting == "nextcloud.webpush" ? 200 : 403))
      let token = try #require(try await browser.put(appPassword: app.appPassword))
      _ = try await instance.webPush.subscriptions.activate(
        token, of: .init(user: app.user.id, appPassword: app.appPassword))
      #expect(try await instance.webPush.subscriptions(of: app.user.id).isEmpty)
      #expect(try await instance.call(.delete, Browser.path).status == 401)
      #expect(try await browser.unsubscribe().status == 202)
      #expect(try await browser.unsubscribe().status == 200)
      #expect(try await capabilities(app) == ["devices", "object-data", "delete"])
    }
  }

  private func capabilities(_ app: SignedIn) async throws -> [String] {
    let answer = try await app.call(.get, "cloud/capabilities")
    let push = answer.data?["capabilities"]?["notifications"]?["push"]
    guard case .array(let elements)? = push else { return [] }
    return elements.compactMap(\.string)
  }

  @Test func `apps are told that they may subscribe`() async throws {
    try await test { instance in
      let app = try await instance.user()
      #expect(try await capabilities(app).suffix(1) == ["webpush"])
    }
    try await test(["nextcloud.webpush_browsers": "true"]) { instance in
      let app = try await instance.user()
      #expect(try await capabilities(app).suffix(2) == ["webpush", "webpush-browsers"])
    }
  }

  @Test func `without an app password nobody subscribes unless browsers may`() async throws {
    try await test { instance in
      let app = try await instance.user()
      let browser = Browser(app.withAPIKey)
      let answer = try await browser.subscribe()
      #expect((answer.status, answer.code) == (403, "WEBPUSH_DISABLED"))
      #expect(try await browser.activate("x").code == "WEBPUSH_DISABLED")
      #expect(try await browser.unsubscribe().status == 200)
      // What is wrong with the subscription is told first.
      var form = browser.form()
      form[2].1 = ""
      #expect(try await browser.app.call(.post, Browser.path, form).code == "INVALID_AUTH")
      #expect(try await instance.counts() == [0, 0])
    }
    try await test(["nextcloud.webpush_browsers": "true"]) { instance in
      let app = try await instance.user()
      let (browser, phone) = (Browser(app.withAPIKey), Browser(app))
      #expect(try await browser.unsubscribe().status == 200)
      for subscriber in [browser, phone] { #expect(try await subscriber.subscribe().status == 201) }
      let token = try #require(try await browser.put(appTypes: "files", appPassword: nil))
      #expect(try await browser.activate(token).status == 202)
      #expect(try await browser.subscribe(appTypes: "talk").status == 200)
      #expect(try await instance.active(app) == ["talk"])
      #expect(try await instance.counts() == [2, 1])
      // Another API key ends what the old one was for.
      _ = try await instance.accounts.put(
        .init(email: app.user.email, apiKey: String(repeating: "b", count: 32)), userID: 10,
        realm: instance.realm.uuid)
      #expect(try await instance.active(app) == [])
      #expect(try await browser.subscribe().status == 401)
    }
  }

  @Test func `it goes with its app password and with its user`() async throws {
    try await test(["nextcloud.webpush_browsers": "true"]) { instance in
      let app = try await instance.user()
      let second = try await instance.app(of: app.user, apiKey: app.apiKey)
      let bob = try await instance.user("bob", id: 11)
      for app in [app, second, bob, app.withAPIKey] {
        #expect(try await Browser(app).subscribe().status == 201)
      }
      #expect(try await second.call(.delete, "core/apppassword").status == 200)
      #expect(try await instance.counts() == [3, 0])
      #expect(try await Browser(second).subscribe().status == 401)
      _ = try await instance.database.execute(
        Statement("DELETE FROM users WHERE id = $1", .integer(app.user.id)))
      #expect(try await instance.counts() == [1, 0])
      await #expect(throws: NextcloudSubscriptions.UnknownHolder.self) {
        try await Browser(app).put(appPassword: app.appPassword)
      }
    }
  }

  @Test func `an app that has signed in anew leaves nothing of itself behind`() async throws {
    try await test { instance in
      let old = try await instance.user()
      let new = try await instance.app(of: old.user)
      let bob = try await instance.user("bob", id: 11)
      let browser = Browser(old)
      for app in [old, bob, new] {
        #expect(try await Browser(app, endpoint: browser.endpoint).subscribe().status == 201)
      }
      #expect(try await instance.counts() == [2, 0])
      #expect(try await browser.unsubscribe().status == 200)
      #expect(try await Browser(new).unsubscribe().status == 202)
    }
  }

  @Test func `many calls at a time leave one subscription`() async throws {
    try await test { instance in
      let app = try await instance.user()
      try await withThrowingTaskGroup(of: Int.self) { group in
        for _ in 0..<8 { group.addTask { try await Browser(app).subscribe().status } }
        for try await status in group { #expect(status == 201) }
      }
      #expect(try await instance.counts() == [1, 0])
    }
  }

  @Test func `neither endpoint nor keys nor tokens can be read in the database`() async throws {
    try await test { instance in
      let browser = Browser(try await instance.user())
      #expect(try await browser.subscribe().status == 201)
      let token = try #require(try await browser.put(appPassword: browser.app.appPassword))
      let contents = try await instance.test.contents()
      for secret in [browser.endpoint, browser.phone.publicKey, browser.phone.auth, token] {
        #expect(contents.range(of: Data(secret.utf8)) == nil)
      }
    }
  }

  @Test(
    arguments: [
      ("all", ["files", "talk", "spreed"], []), ("files", ["files"], ["talk", "spreed", "file"]),
      ("talk", ["spreed", "talk", "admin_notification_talk"], ["files"]), ("spreed", [], ["spreed", "talk"]),
      ("all,-talk", ["files"], ["spreed", "talk", "admin_notification_talk"]),
      ("all,-talk,talk", ["files", "spreed"], []), ("-files,all", ["talk"], ["files"]),
      ("-files", [], ["files", "talk"]), ("", [], ["files"]), (",,", [], ["", "files"]),
      ("all ,files", ["files"], ["talk"]), ("ALL", [], ["files"]),
    ] as [(String, [String], [String])])
  func `an app is meant if it is named, or all are but not this one`(
    text: String, meant: [String], others: [String]
  ) {
    for app in meant { #expect(AppTypes(text).contain(app), "\(app)") }
    for app in others { #expect(!AppTypes(text).contain(app), "\(app)") }
  }
}

extension SignedIn {
  /// The same user, who signs in with the API key.
  var withAPIKey: SignedIn {
    SignedIn(instance: instance, user: user, apiKey: apiKey, appPassword: appPassword, password: apiKey)
  }
}
