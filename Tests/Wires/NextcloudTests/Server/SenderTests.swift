import Foundation
import HTTP
import HTTPTypes
import Registrations
import SQL
import Sealing
import Synchronization
import TestService
import TestSupport
import Testing

@testable import NextcloudServer

extension NextcloudMessage {
  static func chat(_ nid: Int64 = 1, _ subject: String = "Hello") -> NextcloudMessage {
    .notification(.init(nid: nid, app: "spreed", subject: subject, type: "chat", id: "room"))
  }
}

/// `Documentation/Protocols/Nextcloud.md` 6, `Documentation/Decisions` 0022.
@Suite struct SenderTests {
  /// Runs a test beside a proxy that phones may name.
  private func withProxy(
    _ settings: [String: String] = [:],
    _ test: @escaping @Sendable (Instance, OthersHost) async throws -> Void
  ) async throws {
    try await OthersHost.runProxy { proxy in
      try await Instance.test(Instance.localProxies.merging(settings) { $1 }) { try await test($0, proxy) }
    }
  }

  private func plaintext(_ entry: JSON) throws -> String {
    let device = try RSAPrivateKey(pem: Vectors.load().devicePrivateKey)
    let ciphertext = try #require(entry["subject"]?.string.flatMap(Base64.decodeStrictly))
    return String(decoding: try #require(device.decrypt(ciphertext, padding: .oaep)), as: UTF8.self)
  }

  private typealias Row = (
    status: Int, body: String, sent: Int, failed: Int, unknown: Int, queued: Int, remains: Bool
  )

  @Test func `every answer means what Nextcloud takes it for`() async throws {
    // UNKNOWN stands for the phone's identifier. The two pushes are deletions for one phone.
    let rows: [Row] = [
      (200, #"{"unknown":[],"failed":0}"#, 2, 0, 0, 0, true),
      (200, #"{"unknown":null,"failed":0}"#, 2, 0, 0, 0, true),
      (200, #"{"unknown":{},"failed":1}"#, 1, 1, 0, 0, true),
      (200, #"{"unknown":["UNKNOWN"],"failed":2}"#, 0, 2, 1, 0, false),
      (200, #"{"unknown":["UNKNOWN","UNKNOWN"],"failed":0}"#, 0, 2, 1, 0, false),
      (400, #"{"unknown":["UNKNOWN"],"failed":2}"#, 0, 2, 1, 0, false),
      (429, #"{"unknown":["UNKNOWN"],"failed":2}"#, 0, 2, 1, 0, false),
      (201, #"{"unknown":["UNKNOWN"],"failed":1,"more":true}"#, 0, 2, 1, 0, false),
      (200, #"{"unknown":["other",7,null],"failed":0}"#, 2, 0, 0, 0, true),
      (400, #"{"unknown":[],"failed":0}"#, 2, 0, 0, 0, true),
      (200, #"{"unknown":[],"failed":"0"}"#, 0, 2, 0, 0, true),
      (200, #"{"unknown":[],"failed":0.0}"#, 0, 2, 0, 0, true),
      (200, #"{"unknown":[],"failed":null}"#, 0, 2, 0, 0, true),
      (200, #"{"unknown":[],"failed":-1}"#, 2, 0, 0, 0, true),
      (200, #"{"unknown":[],"failed":99}"#, 0, 2, 0, 0, true),
      (200, #"{"unknown":["UNKNOWN"]}"#, 2, 0, 0, 0, true), (200, #"{"failed":1}"#, 2, 0, 0, 0, true),
      (200, "", 2, 0, 0, 0, true), (204, "", 2, 0, 0, 0, true), (200, "<html>", 2, 0, 0, 0, true),
      (400, "no", 0, 2, 0, 0, true), (401, #"{"unknown":["UNKNOWN"]}"#, 0, 2, 0, 0, true),
      (404, "404 page not found", 0, 2, 0, 0, true), (413, "", 0, 2, 0, 0, true),
      (429, #"{"message":"slow down"}"#, 0, 2, 0, 0, true), (302, "", 0, 2, 0, 0, true),
      (500, #"{"unknown":["UNKNOWN"],"failed":2}"#, 0, 0, 0, 2, true), (502, "<html>", 0, 0, 0, 2, true),
      (503, "", 0, 0, 0, 2, true),
    ]
    try await withProxy { instance, proxy in
      let app = try await instance.user()
      for row in rows {
        try await app.register(proxy: proxy.url)
        let identifier = try #require(try await app.registration()).description.deviceIdentifier
        proxy.reply(row.status, row.body.replacing("UNKNOWN", with: identifier))
        let receipt = try await instance.sender.notify(app.user, .deletion(nids: [1, 2], app: "files"))
        #expect(
          receipt.proxies == [
            .init(
              url: proxy.url, status: row.status, sent: row.sent, failed: row.failed, unknown: row.unknown,
              queued: row.queued)
          ], "\(row.status) \(row.body)")
        #expect((try await app.registration() != nil) == row.remains, "\(row.status) \(row.body)")
        #expect(try await instance.pushes.queue.count() == Int64(row.queued))
        _ = try await app.call(.delete, SignedIn.push)
        #expect(try await instance.pushes.queue.count() == 0)
      }
    }
  }

  @Test func `a proxy takes only its own phones away, slash or not`() async throws {
    try await withProxy { instance, proxy in
      try await OthersHost.runProxy { other in
        let app = try await instance.user()
        let elsewhere = try await instance.app(of: app.user)
        let bob = try await instance.user("bob", id: 11)
        try await app.register(proxy: proxy.url + "/")
        try await elsewhere.register(proxy: other.url)
        try await bob.register(proxy: proxy.url)
        var all: [String] = []
        for app in [app, elsewhere, bob] {
          all.append(try #require(try await app.registration()).description.deviceIdentifier)
        }
        proxy.reply(200, OthersHost.unknown(all, failed: 1))
        let receipt = try await instance.sender.notify(app.user, .chat())
        #expect(receipt.proxies.map(\.unknown).reduce(0, +) == 1)
        #expect(try await app.registration() == nil)
        #expect(try await elsewhere.registration() != nil)
        // Nothing was sent to this one: its turn comes.
        #expect(try await bob.registration() != nil)
      }
    }
  }

  @Test func `a phone that registers again meanwhile stays`() async throws {
    try await withProxy { instance, proxy in
      let app = try await instance.user()
      try await app.register(proxy: proxy.url)
      let identifier = try #require(try await app.registration()).description.deviceIdentifier
      proxy.reply { _ in
        instance.clock.advance(1)
        try await app.register(proxy: proxy.url)
        return OthersHost.response(200, OthersHost.unknown([identifier], failed: 1))
      }
      let receipt = try await instance.sender.notify(app.user, .chat())
      #expect(receipt.proxies.first?.unknown == 1)
      #expect(try await app.registration() != nil)
    }
  }

  @Test func `a phone whose key is none goes`() async throws {
    try await withProxy { instance, proxy in
      let app = try await instance.user()
      let second = try await instance.app(of: app.user)
      let key = try Vectors.load().devicePublicKey
      try await app.register(proxy: proxy.url, key: key.replacing("MII", with: "!!!"))
      try await second.register(proxy: proxy.url)
      let receipt = try await instance.sender.notify(app.user, .chat())
      #expect((receipt.devices, receipt.proxies.first?.sent) == (1, 1))
      #expect(try await app.registration() == nil)
      #expect(try await second.registration() != nil)
    }
  }

  @Test func `notifications that are taken back by number are of the app that sent them`() async throws {
    try await withProxy { instance, proxy in
      let talk = try await instance.user()
      let files = try await instance.app(of: talk.user)
      try await talk.register(proxy: proxy.url, userAgent: SignedIn.talk)
      try await files.register(proxy: proxy.url)
      _ = try await instance.sender.notify(talk.user, .chat(1))
      _ = try await instance.sender.notify(
        talk.user, .notification(.init(nid: 2, app: "files", subject: "", type: "", id: "")))
      let receipt = try await instance.sender.notify(talk.user, .deletion(nids: [1, 2, 3], app: nil))
      #expect((receipt.devices, receipt.proxies.first?.sent) == (2, 3))
      let call = try #require(proxy.seen.last)
      #expect(
        try call.entries.map(plaintext) == [
          #"{"nids":[1,3],"delete-multiple":true}"#, #"{"nid":2,"delete":true}"#, #"{"nid":3,"delete":true}"#,
        ])
      #expect(call.entries.allSatisfy { $0["priority"] == "normal" && $0["type"] == "background" })
      // They are forgotten with that.
      _ = try await instance.sender.notify(talk.user, .deletion(nids: [1], app: nil))
      #expect(try #require(proxy.seen.last).entries.count == 2)
    }
  }

  @Test func `a proxy at a private address is not called, but for the operator's own`() async throws {
    try await OthersHost.runProxy { proxy in
      for (isDefault, isCalled) in [(false, false), (true, true)] {
        try await Instance.test([
          "nextcloud.default_proxy": isDefault ? proxy.url + "/" : "https://push.example.org"
        ]) {
          instance in
          let app = try await instance.user()
          try await app.register()
          let before = proxy.seen.count
          for url in [proxy.url, proxy.url.replacing("127.0.0.1", with: "localhost")] {
            // As though its name had been a public one's when it registered.
            var description = try #require(try await app.registration()).description
            description.proxyServer = url
            _ = try await instance.registrations.put(description)
            let receipt = try await instance.sender.notify(app.user, .chat())
            let isTrusted = isCalled && url == proxy.url
            #expect(receipt.proxies.first?.status == (isTrusted ? 200 : nil))
            #expect(receipt.proxies.first?.failed == (isTrusted ? 0 : 1))
          }
          #expect(proxy.seen.count - before == (isCalled ? 1 : 0))
          #expect(try await instance.pushes.queue.count() == 0)
        }
      }
    }
  }
}
