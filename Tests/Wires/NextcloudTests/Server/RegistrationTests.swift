import Foundation
import HTTP
import HTTPTypes
import NextcloudProxy
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
  private var instance: Instance { Fixture.current }

  private static let hash = String(repeating: "0123456789abcdef", count: 8)

  @Test(.instance) func `the same again is nothing new, a change is`() async throws {
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

  @Test(.instance) func `a phone that has signed in anew leaves nothing of itself behind`() async throws {
    let old = try await instance.user()
    let new = try await instance.app(of: old.user)
    let others = try await instance.user("bob", id: 11)
    for app in [old, others, new] { try await app.register(token: "the same") }
    #expect(try await old.registration() == nil)
    #expect(try await new.registration() != nil)
    #expect(try await others.registration() != nil)
  }

  @Test(
    arguments: [
      ("Mozilla/5.0 (Android) Nextcloud-Talk v20.0.0", .talk),
      ("Mozilla/5.0 (iOS) Nextcloud-Talk v19.1 (Strict VoIP)", .talk),
      ("Mozilla/5.0 (Android) Nextcloud-android/3.30.0", .files),
      ("Mozilla/5.0 (Android) ownCloud-android/2.0", .files),
      ("Mozilla/5.0 (iOS) Nextcloud-iOS/6.0", .files), ("Mozilla/5.0 (iOS) ownCloud-iOS/1", .files),
      ("Mozilla/5.0 (Windows) Nextcloud-Talk v1", .other),
      ("Mozilla/5.0 (Android) F7cloud-Talk v1", .other),
      ("x Mozilla/5.0 (Android) Nextcloud-Talk v1", .other), ("", .other),
    ] as [(String, NextcloudApp.Kind)])
  func `the kind of app is by its name`(agent: String, kind: NextcloudApp.Kind) {
    #expect(NextcloudApp.Kind(userAgent: agent) == kind)
  }

  @Test(.instance) func `registrations go with their app password and with their user`() async throws {
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

  @Test(.instance) func `an app password's id is given once`() async throws {
    let app = try await instance.user()
    let before = try await app.register().data?["deviceIdentifier"]
    #expect(try await instance.accounts.removeAppPassword(app.appPassword, user: app.user.id))
    let next = try await instance.app(of: app.user)
    #expect(next.appPassword > app.appPassword)
    #expect(try await next.register().data?["deviceIdentifier"] != before)
  }

  @Test(.instance) func `an app password that is removed meanwhile registers nothing`() async throws {
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
