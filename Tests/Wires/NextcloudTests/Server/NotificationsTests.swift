import Foundation
import HTTP
import HTTPTypes
import Registrations
import SQL
import TestService
import TestSupport
import Testing

@testable import NextcloudServer

/// What apps fetch after a push has told them of it.
@Suite(.instance) struct NotificationsTests {
  private let instance = Fixture<Instance>.current

  private static let list = "apps/notifications/api/v2/notifications"

  private static func notification(
    _ nid: Int64, app: String = "files", subject: String = "A file was shared", message: String = ""
  ) -> NextcloudMessage {
    .notification(.init(nid: nid, app: app, subject: subject, message: message, type: "share", id: "7\u{0}"))
  }

  private func send(_ message: NextcloudMessage, to app: SignedIn) async throws {
    _ = try await app.instance.sender.notify(app.user, message)
    app.instance.clock.advance(1)
  }

  private func nids(_ answer: Instance.Answer) -> [Int64] {
    guard case .array(let entries)? = answer.data else { return [] }
    return entries.compactMap { $0["notification_id"]?.integer ?? $0.integer }
  }

  @Test func `of very many the list has the newest hundred, and is not sent again to who has it`()
    async throws
  {
    let app = try await instance.user()
    for nid in Int64(1)...103 { try await send(Self.notification(nid), to: app) }
    let all = try await app.call(.get, Self.list)
    #expect(nids(all) == Array((Int64(4)...103).reversed()))
    // A proxy that compresses makes weak tags.
    var headers = app.headers()
    headers[.ifNoneMatch] = "\"a\",W/\(try #require(all.headers[.eTag])) , \"b\""
    #expect(try await instance.call(.get, Self.list, headers: headers).status == 304)
    try await send(Self.notification(9, subject: "Changed"), to: app)
    #expect(try await instance.call(.get, Self.list, headers: headers).status == 200)
  }

  @Test func `those of an app or about an object are found among all, the newest hundred of them`()
    async throws
  {
    let app = try await instance.user()
    for nid in Int64(1)...103 {
      try await send(Self.notification(nid, app: nid <= 2 ? "spreed" : "files"), to: app)
    }
    func list(_ query: String) async throws -> [Int64] {
      let path = "\(Self.list)?format=json&\(query)"
      return nids(try await instance.call(.get, path, headers: app.headers(), format: nil))
    }
    #expect(try await list("app=spreed&objectType=share") == [2, 1])
    #expect(try await list("app=spreed&objectType=&objectId=") == [2, 1])
    #expect(try await list("objectType=share") == Array((Int64(4)...103).reversed()))
    for query in ["app=spree", "app=spreed&objectType=chat", "objectId=7"] {
      #expect(try await list(query) == [])
    }
  }

  @Test func `what one phone deletes the others take away`() async throws {
    try await OthersHost.runProxy { proxy in
      try await Instance.test(Instance.localProxies) { instance in
        let phone = try await instance.user()
        let other = try await instance.app(of: phone.user)
        try await phone.register(proxy: proxy.url)
        try await other.register(proxy: proxy.url)
        for nid in Int64(1)...3 { try await send(Self.notification(nid), to: phone) }
        let before = proxy.entries.count
        #expect(before == 6)

        #expect(try await phone.call(.delete, "\(Self.list)/2").status == 200)
        #expect(proxy.entries.count == before + 1)
        let identifier = try await other.registration()?.description.deviceIdentifier
        #expect(proxy.entries.last?["deviceIdentifier"]?.string == identifier)
        #expect(proxy.entries.last?["type"] == "background")
        #expect(nids(try await other.call(.get, Self.list)) == [3, 1])
        // It is gone already, and nobody is told again.
        for nid in ["2", "77"] {
          let answer = try await phone.call(.delete, "\(Self.list)/\(nid)")
          #expect((answer.status, answer.data) == (200, []))
        }
        let none = try await phone.call(.delete, "\(Self.list)/0")
        #expect((none.status, none.data) == (404, JSON.null))
        #expect(proxy.entries.count == before + 1)

        #expect(try await other.call(.delete, Self.list).status == 200)
        #expect(proxy.entries.count == before + 2)
        #expect(
          proxy.entries.last?["deviceIdentifier"]?.string
            == (try await phone.registration()?.description.deviceIdentifier))
        #expect(try await phone.call(.get, Self.list).data == [])
        #expect(try await other.call(.delete, Self.list).status == 200)
        #expect(proxy.entries.count == before + 2)
      }
    }
  }

  @Test func `what the host application takes back is gone`() async throws {
    let app = try await instance.user()
    for nid in Int64(1)...4 { try await send(Self.notification(nid), to: app) }
    try await send(.deletion(nids: [2, 3, 8], app: nil), to: app)
    #expect(nids(try await app.call(.get, Self.list)) == [4, 1])
    try await send(.deletionOfAll, to: app)
    #expect(try await app.call(.get, Self.list).data == [])
  }

  @Test func `what people read is not to be read in the database`() async throws {
    let app = try await instance.user()
    try await send(Self.notification(1, subject: "subject", message: "message"), to: app)
    let row = try await instance.database.read {
      try $0.query(
        Statement("SELECT subject, message, object_type, object_id FROM nextcloud_notifications")
      ).first
    }
    let texts = [
      "subject": "subject", "message": "message", "object_type": "share", "object_id": "7\u{0}",
    ]
    for (column, text) in texts {
      let sealed = try #require(try row?.bytes(column))
      // A header, a nonce and a MAC.
      #expect(sealed.count == text.utf8.count + 4 + 24 + 16)
      #expect(!String(decoding: sealed, as: UTF8.self).contains(text))
    }
  }
}

extension OthersHost {
  /// All that it has been sent so far.
  fileprivate var entries: [JSON] { seen.flatMap(\.entries) }
}
