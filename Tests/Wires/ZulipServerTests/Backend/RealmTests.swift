import Foundation
import HTTP
import HTTPTypes
import Registrations
import SQL
import TestSupport
import Testing

@Suite("Realms", .host) struct RealmTests {
  private let host = Fixture<Host>.current

  static let uuid = "6b1e5dd4-3c3b-4d0a-9a1c-0f6a9f1f8a11"
  static let path = "realms/\(uuid)"
  static let body: JSON = ["name": " Example ", "url": "https://chat.example.org"]

  @Test
  func `are added, and are then as told`() async throws {
    let added = try await host.call(.put, Self.path, Self.body)
    #expect(added.status == 201)
    #expect(
      added.text == """
        {"realm_uuid":"\(Self.uuid)","name":"Example","url":"https://chat.example.org",\
        "require_e2ee_push_notifications":false}

        """)
    #expect(added.headers[.contentType] == "application/json")
    #expect(added.headers[.cacheControl]?.contains("no-store") == true)
    let stored = try #require(try await host.accounts.realms().first)
    #expect(stored.name == "Example" && stored.url == "https://chat.example.org" && !stored.requiresE2EE)

    let changed = try await host.call(
      .put, Self.path.uppercased().replacing("REALMS", with: "realms"),
      ["name": "New", "url": "http://new.example.org/", "require_e2ee_push_notifications": true])
    #expect(changed.status == 200)
    #expect(changed.json["realm_uuid"]?.string == Self.uuid)
    #expect(changed.json["require_e2ee_push_notifications"] == true)
    // What is not told stays.
    for body: JSON in [
      Self.body, ["name": "A", "url": "https://a.example", "require_e2ee_push_notifications": nil],
    ] {
      let kept = try await host.call(.put, Self.path, body)
      #expect(kept.json["require_e2ee_push_notifications"] == true)
    }
    let realms = try await host.accounts.realms()
    #expect(realms.map(\.id) == [stored.id])
    #expect(realms.first?.name == "A")
  }

  @Test(arguments: [
    (
      Array(#"{"name": "a\ud83d"}"#.utf8),
      #"Malformed JSON: line 1, column 12: \ud83d is half of a surrogate pair"#
    ),
    (Array("{\n'name': 1}".utf8), "Malformed JSON: line 2, column 1: ' is not expected there"),
    ([], "Malformed JSON: it is empty"),
    (Array("{\"name\": \"\u{e9}\"}".data(using: .isoLatin1) ?? Data()), "Malformed payload: it is not UTF-8"),
  ])
  func `whose body is no JSON are refused with where it is wrong`(body: [UInt8], message: String) async throws
  {
    let answer = try await host.call(.put, Self.path, body: body)
    #expect(answer.status == 400)
    #expect(answer.json["msg"]?.string?.hasPrefix(message) == true, "\(answer.text)")
  }

  @Test
  func `tell the rest of the program when they change, and only then`() async throws {
    _ = try await host.call(.put, Self.path, Self.body)
    #expect(host.asked.realmChanges == 1)
    let before = try await host.dump()
    #expect(try await host.status(.put, Self.path, Self.body) == 200)
    #expect(host.asked.realmChanges == 1)
    #expect(try await host.dump() == before)
    let changes: [JSON] = [
      ["name": "B", "url": "https://a.example"], ["name": "B", "url": "https://b.example"],
      ["name": "B", "url": "https://b.example", "require_e2ee_push_notifications": true],
    ]
    for (index, body) in changes.enumerated() {
      _ = try await host.call(.put, Self.path, body)
      #expect(host.asked.realmChanges == index + 2)
    }
    _ = try await host.call(.put, Self.path, ["name": "B", "url": "no URL"])
    #expect(host.asked.realmChanges == 4)
  }

  @Test(
    arguments: [
      (["url": "https://a.example"], "name"), (["name": "", "url": "https://a.example"], "name"),
      (["name": " \n ", "url": "https://a.example"], "name"),
      (["name": 1, "url": "https://a.example"], "name"),
      (["name": nil, "url": "https://a.example"], "name"),
      (["name": "a\u{0}b", "url": "https://a.example"], "name"),
      (["name": "a\u{85}b", "url": "https://a.example"], "name"),
      (["name": .string(String(repeating: "ä", count: 101)), "url": "https://a.example"], "name"),
      (["name": "A"], "url"), (["name": "A", "url": ""], "url"), (["name": "A", "url": "a.example"], "url"),
      (["name": "A", "url": "ftp://a.example"], "url"), (["name": "A", "url": "https://"], "url"),
      (["name": "A", "url": "https:///path"], "url"), (["name": "A", "url": "https://a.example/ b"], "url"),
      (["name": "A", "url": "javascript:alert(1)"], "url"),
      (["name": "A", "url": .string("https://a.example/" + String(repeating: "a", count: 1007))], "url"),
      (
        ["name": "A", "url": "https://a.example", "require_e2ee_push_notifications": "yes"],
        "require_e2ee_push_notifications"
      ),
      (["name": "A", "url": "https://a.example", "require_e2ee": true], "require_e2ee"),
    ] as [(JSON, String)])
  func `that are wrong are refused by the name of the field`(_ body: JSON, _ field: String) async throws {
    let answer = try await host.call(.put, Self.path, body)
    #expect(answer.status == 400)
    #expect(answer.message.contains("[\"\(field)\"]"))
    #expect(answer.json["result"] == "error")
    #expect(try await host.accounts.realms() == [])
    #expect(host.asked.realmChanges == 0)
  }

  @Test
  func `have names and addresses up to the limits`() async throws {
    let body: JSON = [
      "name": .string(String(repeating: "ä", count: 100)),
      "url": .string("https://a.example/" + String(repeating: "a", count: 1006)),
    ]
    let status = try await host.status(.put, Self.path, body)
    #expect(status == 201)
  }

  @Test(arguments: [
    "1", "6b1e5dd43c3b4d0a9a1c0f6a9f1f8a11", "%00", "6b1e5dd4-3c3b-1d0a-9a1c-0f6a9f1f8a11",
    "6b1e5dd4-3c3b-7d0a-9a1c-0f6a9f1f8a11", "6b1e5dd4-3c3b-4d0a-ca1c-0f6a9f1f8a11",
  ])
  func `have a UUID in their path that a bouncer takes`(_ uuid: String) async throws {
    let answer = try await host.call(.put, "realms/\(uuid)", Self.body)
    #expect(answer.status == 400)
    #expect(answer.message.contains("realm_uuid"))
  }

  @Test
  func `are read from an object of at most a mebibyte`() async throws {
    for text in ["", "no JSON", "[]", "null", "\"a\""] {
      let answer = try await host.call(.put, Self.path, body: Array(text.utf8))
      #expect(answer.status == 400, "\(text)")
    }
    func padded(to count: Int) -> [UInt8] {
      Self.body.bytes + [UInt8](repeating: UInt8(ascii: " "), count: count - Self.body.bytes.count)
    }
    let tooLong = try await host.call(.put, Self.path, body: padded(to: (1 << 20) + 1))
    #expect(tooLong.status == 413)
    #expect(try await host.accounts.realms() == [])
    let longest = try await host.call(.put, Self.path, body: padded(to: 1 << 20))
    #expect(longest.status == 201)
  }

  @Test
  func `wait for a database that is not there`() async throws {
    await host.database.close()
    let answer = try await host.call(.put, Self.path, Self.body)
    #expect(answer.status == 503)
    #expect(answer.headers[.retryAfter] != nil)
    #expect(host.asked.realmChanges == 0)
  }
}
