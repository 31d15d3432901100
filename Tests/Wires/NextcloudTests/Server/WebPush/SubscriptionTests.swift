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
      #expect((after.reference.id, after.appTypes.text) == (before.reference.id, "all,-files"))
      #expect(after.reference.registeredAt > before.reference.registeredAt)
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

  @Test func `it goes with its app password and with its user`() async throws {
    try await test(["nextcloud.webpush_browsers": "true"]) { instance in
      let app = try await instance.user()
      let second = try await instance.app(of: app.user, apiKey: app.apiKey)
      let bob = try await instance.user("bob", id: 11)
      for app in [app, second, bob, app.withAPIKey] {
        #expect(try await Browser(app).subscribe().status == 201)
      }
      // A phone of a Zulip server is none of them.
      _ = try await instance.database.execute(
        Statement(
          "INSERT INTO registrations (wire, kind, token, token_hash, registered_at) VALUES (1, 2, $1, 1, 1)",
          .bytes([1])))
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
