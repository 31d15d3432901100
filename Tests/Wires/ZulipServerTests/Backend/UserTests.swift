import Foundation
import HTTP
import HTTPTypes
import Registrations
import SQL
import TestSupport
import Testing
import ZulipServer

@Suite("Users", .host) struct UserTests {
  private let host = Fixture<Host>.current

  static let key = String(repeating: "aB3", count: 10) + "xY"

  @Test
  func `are added with a key, which is shown only then`() async throws {
    let realm = try await host.realm()
    let path = "\(realm)/users/10"
    let added = try await host.call(.put, path, ["email": "Iago@Example.org"])
    #expect(added.status == 201)
    #expect(added.members == ["user_id", "email", "user_uuid", "username", "api_key"])
    #expect(added.json["user_id"] == 10)
    #expect(added.json["email"] == "Iago@Example.org")
    #expect(added.json["username"] == "Iago")
    #expect(UUID(uuidString: try #require(added.json["user_uuid"]?.string)) != nil)
    let key = try #require(added.json["api_key"]?.string)
    #expect(AccountStore.isAPIKey(key))
    #expect(
      try await host.accounts.authenticate(email: "iago@example.org", apiKey: key)?.userID == 10)

    let before = try await host.dump()
    let again = try await host.call(.put, path, ["email": "Iago@Example.org"])
    #expect(again.status == 200)
    #expect(again.members == ["user_id", "email", "user_uuid", "username"])
    #expect(again.json["user_uuid"] == added.json["user_uuid"])
    #expect(try await host.dump() == before)
  }

  @Test
  func `are as told, and what is not told stays`() async throws {
    let realm = try await host.realm()
    let path = "\(realm)/users/0"
    let uuid = UUID().uuidString
    let told: JSON = [
      "email": "a@example.org", "user_uuid": .string(uuid), "api_key": .string(Self.key), "username": "ann",
    ]
    for status in [201, 200] {
      let answer = try await host.call(.put, path, told)
      #expect(answer.status == status)
      #expect(answer.json["user_uuid"]?.string == uuid.lowercased())
      #expect(answer.json["api_key"]?.string == Self.key)
      #expect(answer.json["username"] == "ann")
    }
    let moved = try await host.call(
      .put, path, ["email": "b@example.org", "user_uuid": nil, "api_key": nil, "username": nil])
    #expect(moved.status == 200)
    #expect(moved.json["email"] == "b@example.org" && moved.json["username"] == "ann")
    #expect(moved.json["user_uuid"]?.string == uuid.lowercased())
    #expect(moved.json["api_key"] == nil)
    guard try await host.accounts.authenticate(email: "a@example.org", apiKey: Self.key) == nil,
      try await host.accounts.authenticate(email: "b@example.org", apiKey: Self.key) != nil
    else { return #expect(Bool(false), "the key opens by the old email, or not by the new") }
    #expect(try await host.accounts.all().count == 1)
  }

  @Test
  func `have an email and a username that no other has, whatever the case and the realm`() async throws {
    _ = try await host.user("iago@example.org")
    let other = try await host.user("cordelia@example.org", id: 11)
    let before = try await host.dump()
    for (body, code, name) in [
      (["email": "IAGO@example.org", "username": "x"], "EMAIL_TAKEN", "email IAGO@example.org"),
      (["email": "x@example.org", "username": "IAGO"], "USERNAME_TAKEN", "username IAGO"),
    ] as [(JSON, String, String)] {
      for path in [other, other.dropLast(2) + "12"] {
        let answer = try await host.call(.put, path, body)
        #expect(answer.status == 409)
        #expect(answer.json["code"]?.string == code)
        #expect(answer.message.contains(name))
      }
    }
    #expect(try await host.dump() == before)
    // One's own are not taken.
    #expect(try await host.status(.put, other, ["email": "CORDELIA@example.org"]) == 200)
  }

  @Test(
    arguments: [
      ([:], "email"), (["email": nil], "email"), (["email": ""], "email"), (["email": "iago"], "email"),
      (["email": "@a"], "email"), (["email": "a@"], "email"), (["email": "@@@"], "email"),
      (["email": "a@b@c"], "email"), (["email": "a b@c"], "email"), (["email": "a:b@c"], "email"),
      (["email": "a\u{0}@c"], "email"), (["email": "a\u{7F}@c"], "email"),
      (["email": "a@c\u{2003}"], "email"),
      (["email": .string("a@" + String(repeating: "b", count: 253))], "email"),
      (["email": "a@b", "user_uuid": "1"], "user_uuid"), (["email": "a@b", "user_uuid": 1], "user_uuid"),
      (["email": "a@b", "api_key": ""], "api_key"),
      (["email": "a@b", "api_key": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"], "api_key"),
      (["email": "a@b", "api_key": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"], "api_key"),
      (["email": "a@b", "api_key": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-"], "api_key"),
      (["email": "a@b", "api_key": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaä"], "api_key"),
      (["email": "a@b", "username": ""], "username"), (["email": "a@b", "username": "a b"], "username"),
      (["email": "a@b", "username": "a:b"], "username"), (["email": "a@b", "username": "a/b"], "username"),
      (["email": "a@b", "username": "a\u{85}b"], "username"),
      (["email": "a@b", "username": "."], "username"),
      (["email": "a@b", "username": ".."], "username"),
      (["email": "a@b", "username": .string(String(repeating: "a", count: 255))], "username"),
      (["email": "a@b", "user_id": 10], "user_id"),
    ] as [(JSON, String)])
  func `that are wrong are refused by the name of the field`(_ body: JSON, _ field: String) async throws {
    let realm = try await host.realm()
    let answer = try await host.call(.put, "\(realm)/users/10", body)
    #expect(answer.status == 400)
    #expect(answer.message.contains("[\"\(field)\"]"))
    #expect(try await host.accounts.all() == [])
  }

  @Test(arguments: [
    ("jane+zulip@example.org", "jane+zulip"), ("o'hara@example.org", "o'hara"), ("Jane.Doe@a", "Jane.Doe"),
    ("jürgen@example.org", "jürgen"), ("a/b@example.org", "a_b"), (".@example.org", ".@example.org"),
    ("..@example.org", "..@example.org"), ("#%?&=\\@a", "#%?&=\\"),
    (String(repeating: "a", count: 252) + "@b", String(repeating: "a", count: 252)),
  ])
  func `have a username of their own that their email begins with`(_ email: String, _ username: String)
    async throws
  {
    let realm = try await host.realm()
    let added = try await host.call(.put, "\(realm)/users/10", ["email": .string(email)])
    #expect(added.status == 201 && added.json["username"]?.string == username)
    // It can be given as it was told, and opens.
    let again: JSON = ["email": .string(email), "username": .string(username)]
    #expect(try await host.status(.put, "\(realm)/users/10", again) == 200)
    let key = try #require(added.json["api_key"]?.string)
    #expect(try await host.accounts.authenticate(login: username.uppercased(), apiKey: key)?.userID == 10)
    #expect(try await host.accounts.find(username: username)?.userID == 10)
  }

  @Test
  func `get the whole email as their username where another user has what it begins with`() async throws {
    let realm = try await host.realm()
    func username(_ id: Int, _ body: JSON) async throws -> String? {
      let answer = try await host.call(.put, "\(realm)/users/\(id)", body)
      #expect(answer.status == 201, "\(answer.message)")
      return answer.json["username"]?.string
    }
    #expect(try await username(1, ["email": "Jane@a.example.org"]) == "Jane")
    #expect(try await username(2, ["email": "jane@b.example.org"]) == "jane@b.example.org")
    #expect(
      try await username(3, ["email": "x@a", "username": "jane@c.example.org"]) == "jane@c.example.org")
    let uuid = "0f4b7c9e-9b0c-4c58-8e53-0d2f2b6f5a01"
    let third: JSON = ["email": "jane@c.example.org", "user_uuid": .string(uuid)]
    #expect(try await username(4, third) == uuid)
  }

  @Test
  func `have an email, a username and a number up to the limits`() async throws {
    let body: JSON = [
      "email": .string("a@" + String(repeating: "b", count: 252)),
      "username": .string(String(repeating: "ä", count: 254)),
    ]
    let realm = try await host.realm()
    #expect(try await host.status(.put, "\(realm)/users/2147483647", body) == 201)
    #expect(try await host.status(.put, "\(realm)/users/0", ["email": "a@b"]) == 201)
  }

  @Test(arguments: ["-1", "2147483648", "1.0", "+1", "01", "x", "%31%20", "99999999999999999999"])
  func `have a number in their path`(_ number: String) async throws {
    let realm = try await host.realm()
    let path = "\(realm)/users/\(number)"
    for answer in [
      try await host.call(.put, path, ["email": "a@b"]), try await host.call(.delete, path),
      try await host.call(.post, "\(path)/app-passwords", ["name": "a"]),
      try await host.call(.post, "\(path)/notifications", ["zulip": [:]]),
    ] {
      #expect(answer.status == 400)
      #expect(answer.message.contains("user_id"))
    }
  }

  @Test
  func `and realms that are not there are named`() async throws {
    let realm = try await host.realm()
    let other = "realms/\(UUID().uuidString.lowercased())"
    for (path, code, name) in [
      ("\(realm)/users/7", "USER_NOT_FOUND", "user 7"),
      ("\(other)/users/7", "REALM_NOT_FOUND", String(other.dropFirst(7))),
    ] {
      for answer in [
        try await host.call(.delete, path),
        try await host.call(.post, "\(path)/app-passwords", ["name": "a"]),
        try await host.call(.delete, "\(path)/app-passwords/1"),
        try await host.call(.post, "\(path)/notifications", ["zulip": [:]]),
      ] {
        #expect(answer.status == 404)
        #expect(answer.json["code"]?.string == code)
        #expect(answer.message.contains(name))
      }
    }
    let added = try await host.call(.put, "\(other)/users/7", ["email": "a@b"])
    #expect(added.status == 404)
    #expect(added.message.contains(other.dropFirst(7)))
    #expect(host.asked.notifications.isEmpty)
  }

  @Test
  func `are removed with all that is theirs, and nobody else's`() async throws {
    let realm = try await host.realm()
    var rows: [Int64] = []
    for id in [Int64(10), 11] {
      let path = try await host.user("user\(id)@example.org", id: id, of: realm)
      #expect(try await host.status(.post, "\(path)/app-passwords", ["name": "a"]) == 201)
      let uuid = try #require(UUID(uuidString: String(realm.dropFirst(7))))
      let user = try #require(try await host.accounts.find(realm: uuid, userID: id))
      rows.append(user.id)
      _ = try await host.devices.add(user: user.id)
    }
    let removed = try await host.call(.delete, "\(realm)/users/10")
    #expect(removed.status == 200)
    #expect(removed.text == "{}\n")
    #expect(removed.headers[.contentType] == "application/json")
    let dump = try await host.dump()
    for (table, column) in [("users", 0), ("app_passwords", 1), ("devices", 1)] {
      #expect(dump[table]?.map { $0[column] } == [.integer(rows[1])], "\(table)")
    }
    #expect(try await host.status(.delete, "\(realm)/users/10") == 404)
    #expect(
      try await host.call(.put, "\(realm)/users/10", ["email": "user10@example.org"]).status == 201)
  }
}
