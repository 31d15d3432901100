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
@Suite struct NotificationsTests {
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

  @Test func `one is fetched by its number, as it was sent, by its user alone`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      let bob = try await instance.user("bob", id: 11)
      let subject = "</b> \u{1F600} \"ü\"\n"
      try await send(Self.notification(7, subject: subject, message: "Look\u{0} here"), to: app)
      for base in ["/ocs/v1.php", "/ocs/v2.php"] {
        let answer = try await app.call(.get, "\(Self.list)/7", base: base)
        #expect(answer.status == 200)
        #expect(
          answer.data == [
            "notification_id": 7, "app": "files", "user": "alice", "datetime": "2026-09-21T14:13:20+00:00",
            "object_type": "share", "object_id": "7\u{0}", "subject": .string(subject),
            "message": "Look\u{0} here", "link": "", "subjectRich": "", "subjectRichParameters": [],
            "messageRich": "", "messageRichParameters": [], "icon": "", "shouldNotify": true, "actions": [],
          ])
      }
      #expect(try await bob.call(.get, "\(Self.list)/7").status == 404)
      for nid in ["8", "0", "-7", "x", "99999999999999999999", "7%00"] {
        let answer = try await app.call(.get, "\(Self.list)/\(nid)")
        #expect((answer.status, answer.data) == (404, JSON.null))
      }
      // The same number again is the same notification, as it is now.
      try await send(Self.notification(7, app: "spreed", subject: "Else"), to: app)
      let again = try await app.call(.get, "\(Self.list)/7")
      #expect(again.data?["subject"] == "Else")
      #expect(again.data?["app"] == "spreed")
      #expect(again.data?["message"] == "")
      #expect(again.data?["datetime"] == "2026-09-21T14:13:21+00:00")
    }
  }

  @Test func `the list has the newest first, and is not sent again to whom has it`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      let bob = try await instance.user("bob", id: 11)
      let empty = try await app.call(.get, Self.list)
      #expect((empty.status, empty.data) == (200, []))
      #expect(empty.headers[.userStatus] == "online")
      for nid in [Int64(3), 9, 5] { try await send(Self.notification(nid), to: app) }
      try await send(Self.notification(4), to: bob)
      let all = try await app.call(.get, Self.list)
      #expect(nids(all) == [5, 9, 3])
      let tag = try #require(all.headers[.eTag])
      #expect(tag.hasPrefix("\"") && tag.hasSuffix("\"") && tag != empty.headers[.eTag])

      func ask(_ tags: String) async throws -> Instance.Answer {
        var headers = app.headers()
        headers[.ifNoneMatch] = tags
        return try await instance.call(.get, Self.list, headers: headers)
      }
      for tags in [tag, "W/\(tag)", "\"a\", \(tag)", "\"a\",W/\(tag) , \"b\""] {
        let answer = try await ask(tags)
        #expect((answer.status, answer.body, answer.headers[.eTag]) == (304, "", tag))
        #expect(answer.headers[.userStatus] == "online")
      }
      for tags in ["", "\"a\"", try #require(empty.headers[.eTag]), String(tag.dropLast())] {
        #expect(try await ask(tags).status == 200)
      }
      try await send(Self.notification(9, subject: "Changed"), to: app)
      #expect(nids(try await ask(tag)) == [9, 5, 3])
    }
  }

  @Test func `of very many the list has the newest hundred`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      for nid in Int64(1)...103 { try await send(Self.notification(nid), to: app) }
      #expect(nids(try await app.call(.get, Self.list)) == Array((Int64(4)...103).reversed()))
    }
  }

  @Test func `an app asks which of some are still there`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      for nid in Int64(1)...3 { try await send(Self.notification(nid), to: app) }
      let path = "\(Self.list)/exists"
      let json = try await app.call(.post, path, json: #"{"ids":[3,4,"1",3,null,-1,"x"]}"#)
      #expect((json.status, nids(json)) == (200, [3, 1]))
      #expect(nids(try await app.call(.post, path, [("ids[]", "2"), ("ids[]", "9")])) == [2])
      #expect(nids(try await app.call(.post, path, [("ids[0]", "2"), ("ids[1]", "1")])) == [2, 1])
      let query = try await instance.call(
        .post, "\(path)?ids[]=2", headers: app.headers(), format: nil)
      #expect(query.body.contains("<element>2</element>"))
      for none in ["{}", #"{"ids":[]}"#] {
        let answer = try await app.call(.post, path, json: none)
        #expect((answer.status, answer.data) == (200, []))
      }
      let many = (1...201).map(String.init).joined(separator: ",")
      for wrong in [#"{"ids":[\#(many)]}"#, #"{"ids":1}"#, #"{"ids":"1"}"#] {
        #expect(try await app.call(.post, path, json: wrong).status == 400)
      }
      #expect(try await app.call(.post, path, json: #"{"ids":[\#(many.dropLast(4))]}"#).status == 200)
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
    try await Instance.test { instance in
      let app = try await instance.user()
      for nid in Int64(1)...4 { try await send(Self.notification(nid), to: app) }
      try await send(.deletion(nids: [2, 3, 8], app: nil), to: app)
      #expect(nids(try await app.call(.get, Self.list)) == [4, 1])
      try await send(.deletionOfAll, to: app)
      #expect(try await app.call(.get, Self.list).data == [])
    }
  }

  @Test func `what people read is not to be read in the database`() async throws {
    try await Instance.test { instance in
      let app = try await instance.user()
      try await send(Self.notification(1, subject: "subject", message: "message"), to: app)
      let row = try await instance.database.read {
        try $0.query(
          Statement("SELECT subject, message, object_type, object_id FROM nextcloud_notifications")
        ).first
      }
      let columns = try #require(try row.map { row in try (0..<4).map { try row.bytes($0) } })
      for (sealed, text) in zip(columns, ["subject", "message", "share", "7\u{0}"]) {
        // A header, a nonce and a MAC.
        #expect(sealed.count == text.utf8.count + 4 + 24 + 16)
        #expect(!String(decoding: sealed, as: UTF8.self).contains(text))
      }
    }
  }
}

extension OthersHost {
  /// All that it has been sent so far.
  fileprivate var entries: [JSON] { seen.flatMap(\.entries) }
}
