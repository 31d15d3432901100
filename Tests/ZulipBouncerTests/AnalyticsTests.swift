import Foundation
import HTTP
import HTTPTypes
import Registrations
import SQL
import TestService
import Testing

@Suite("server/analytics")
struct AnalyticsTests {
  private static let uuid = "e502dde1-74fb-44bc-9b9f-2b8b3a2f3e10"
  private static let count =
    #"{"property":"messages_read::hour","realm":2,"id":5,"end_time":1.5,"subgroup":null,"value":3}"#
  private static let installationCount =
    #"{"property":"1day_actives::day","id":6,"end_time":2,"subgroup":"x","value":3}"#
  private static let event =
    #"{"id":7,"realm":2,"event_time":1.5,"backfilled":false,"extra_data":"{\"a\": 1}","event_type":101}"#

  private static func form(_ bouncer: Bouncer) -> [(String, String)] { form([:], bouncer) }

  private static func form(_ changes: [String: String?], _ bouncer: Bouncer) -> [(String, String)] {
    var form: [(String, String)] = [
      ("realm_counts", "[\(count)]"), ("installation_counts", "[\(installationCount)]"),
      ("realmauditlog_rows", "[\(event)]"), ("realms", "[\(bouncer.realmJSON(uuid).text)]"),
      ("version", #""12.0""#),
      ("merge_base", #""abc""#), ("api_feature_level", "468"),
    ]
    for (name, value) in changes {
      form.removeAll { $0.0 == name }
      if let value { form.append((name, value)) }
    }
    return form
  }

  @Test
  func `keeps a report and tells how far it has come`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let empty = try await bouncer.call("server/analytics/status", .get, authorization: server.header)
      #expect(
        empty.text
          == #"{"result":"success","msg":"","last_realm_count_id":0,"last_installation_count_id":0,"last_realmauditlog_id":0}"#
          + "\n")
      let answer = try await bouncer.post("server/analytics", Self.form(bouncer), as: server)
      #expect(
        answer.text
          == #"{"result":"success","msg":"","realms":{"\#(Self.uuid)":{"can_push":true,"expected_end_timestamp":null}}}"#
          + "\n")
      let status = try await bouncer.call("server/analytics/status", .get, authorization: server.header)
      #expect(status.json["last_realm_count_id"] == 5)
      #expect(status.json["last_installation_count_id"] == 6)
      #expect(status.json["last_realmauditlog_id"] == 7)
      let dump = try await bouncer.dump()
      #expect(dump["remote_realm_audit_log"]?.first?.last == .text(#"{"a":1}"#))
      #expect(dump["remote_realms"]?.first?.contains(.text(#"{"Dev":false,"Email":true}"#)) == true)
      let kept = try await bouncer.servers.all()[0].server
      #expect(kept.version == "12.0")
      #expect(kept.mergeBase == "abc")
      #expect(kept.apiFeatureLevel == 468)
      // The same again is a mistake of the caller's, and changes nothing.
      let again = try await bouncer.post("server/analytics", Self.form(bouncer), as: server)
      #expect(again.message == "Data is out of order.")
      let nothing = try await bouncer.post(
        "server/analytics", [("realm_counts", "[]"), ("installation_counts", "[]")], as: server)
      #expect(nothing.text == #"{"result":"success","msg":"","realms":{}}"# + "\n")
    }
  }

  @Test
  func `refuses what is wrong and keeps nothing of it`() async throws {
    try await Bouncer.test { bouncer in
      let other = try await bouncer.server("other.example.org")
      let theirs = try await bouncer.realm(of: other)
      let server = try await bouncer.server()
      let before = try await bouncer.dump()

      func replace(_ text: String, _ old: String, _ new: String) -> String { text.replacing(old, with: new) }
      func count(_ old: String, _ new: String) -> [String: String?] {
        ["realm_counts": "[\(replace(Self.count, old, new))]"]
      }
      func event(_ old: String, _ new: String) -> [String: String?] {
        ["realmauditlog_rows": "[\(replace(Self.event, old, new))]"]
      }
      func realm(_ name: String, _ value: JSON?) -> [String: String?] {
        guard case .object(var object) = bouncer.realmJSON(Self.uuid) else { return [:] }
        object[name] = value
        return ["realms": JSON.array([.object(object)]).text]
      }
      let table: [([String: String?], String)] = [
        (["realm_counts": String?.none], "Missing 'realm_counts' argument"),
        (["installation_counts": String?.none], "Missing 'installation_counts' argument"),
        (["realm_counts": "x"], "realm_counts is not valid JSON"),
        (["realm_counts": "{}"], "realm_counts is not a list"),
        (["realm_counts": "[5]"], #"realm_counts[0]["property"] field is missing"#),
        (count(#""id":5"#, #""id":"5""#), #"realm_counts[0]["id"] is not an integer"#),
        (count(#""id":5"#, #""id":5.0"#), #"realm_counts[0]["id"] is not an integer"#),
        (count(#""id":5"#, #""id":true"#), #"realm_counts[0]["id"] is not an integer"#),
        (count(#""id":5"#, #""id":99999999999999999999"#), #"realm_counts[0]["id"] is not an integer"#),
        (count(#""id":5,"#, ""), #"realm_counts[0]["id"] field is missing"#),
        (count(#""realm":2"#, #""realm":null"#), #"realm_counts[0]["realm"] is not an integer"#),
        (
          count(#""end_time":1.5"#, #""end_time":1e300"#), #"realm_counts[0]["end_time"] is not a valid time"#
        ),
        (count(#""end_time":1.5"#, #""end_time":"x""#), #"realm_counts[0]["end_time"] is not a number"#),
        (
          count(#""subgroup":null"#, #""subgroup":"\u0000""#),
          #"realm_counts[0]["subgroup"] has invalid format"#
        ),
        (count("messages_read::hour", "no_such"), "Invalid property no_such"),
        (
          count("messages_read::hour", "mobile_pushes_forwarded::day"),
          "Invalid property mobile_pushes_forwarded::day"
        ),
        (count(#""id":5"#, #""id":0"#), "Data is out of order."),
        (
          ["installation_counts": "[\(Self.installationCount),\(Self.installationCount)]"],
          "Data is out of order."
        ),
        (["installation_counts": "null"], "installation_counts is not a list"),
        (event(#""event_type":101"#, #""event_type":106"#), "Invalid event type."),
        (event(#""id":7"#, #""id":-1"#), "Data is out of order."),
        (event(#""{\"a\": 1}""#, #""{""#), "Malformed audit log data"),
        (event(#""{\"a\": 1}""#, "5"), #"realmauditlog_rows[0]["extra_data"] is not a string"#),
        (
          event(#""backfilled":false"#, #""backfilled":0"#),
          #"realmauditlog_rows[0]["backfilled"] is not a boolean"#
        ),
        (realm("org_type", 11), #"Invalid realms[0]["org_type"]: Value error, Not a valid org_type value"#),
        (realm("org_type", "10"), #"realms[0]["org_type"] is not an integer"#),
        (realm("plan", 1), #"Argument "plan" at realms[0]["plan"] is unexpected"#),
        (realm("uuid", "x"), #"realms[0]["uuid"] has invalid format"#),
        (realm("uuid", "e502dde1-74fb-14bc-9b9f-2b8b3a2f3e10"), #"realms[0]["uuid"] has invalid format"#),
        (realm("host", nil), #"realms[0]["host"] field is missing"#),
        (realm("name", .string("a\0b")), #"realms[0]["name"] has invalid format"#),
        (
          realm("authentication_methods", ["Email": 1]),
          #"realms[0]["authentication_methods"]["Email"] is not a boolean"#
        ),
        (
          realm("uuid", .string(theirs)),
          "Duplicate registration detected. Organization \(theirs) is registered already. "
            + Bouncer.gettingBack(theirs)
        ),
        (["version": "12.0.1"], "version is not valid JSON"),
        (["version": "12"], "version is not a string"),
        (["version": #""\u0000""#], "version has invalid format"),
        (["api_feature_level": #""468""#], "api_feature_level is not an integer"),
      ]
      for (changes, message) in table {
        let answer = try await bouncer.post("server/analytics", Self.form(changes, bouncer), as: server)
        #expect(answer.status == 400, "\(message)")
        #expect(answer.message == message)
      }
      #expect(try await bouncer.dump() == before)
    }
  }

  @Test
  func `names the first mistake only, in upstream's order`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let wrong = [
        "realm_counts": "[\(Self.count.replacing("messages_read::hour", with: "no_such"))]",
        "realmauditlog_rows":
          "[\(Self.event.replacing("101", with: "999").replacing(#"{\"a\": 1}"#, with: "{"))]",
      ]
      func message(_ changes: [String: String?]) async throws -> String? {
        try await bouncer.post("server/analytics", Self.form(changes, bouncer), as: server).message
      }
      #expect(try await message(wrong) == "Invalid property no_such")
      #expect(try await message(["realmauditlog_rows": wrong["realmauditlog_rows"]]) == "Invalid event type.")
    }
  }

  @Test
  func `takes long versions, dropped counts and a list of 10,000, and no more than 16 MiB`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let counts = (1...10_000).map { Self.count.replacing(#""id":5"#, with: #""id":\#($0)"#) }
      let dropped = Self.installationCount.replacing("1day_actives::day", with: "invites_sent::day")
      let answer = try await bouncer.post(
        "server/analytics",
        Self.form(
          [
            "realm_counts": "[\(counts.joined(separator: ","))]", "installation_counts": "[\(dropped)]",
            "version": "\"\(String(repeating: "1", count: 200))\"",
          ], bouncer), as: server)
      #expect(answer.isSuccess)
      let status = try await bouncer.call("server/analytics/status", .get, authorization: server.header)
      #expect(status.json["last_realm_count_id"] == 10_000)
      #expect(status.json["last_installation_count_id"] == 0)
      #expect(try await bouncer.servers.all()[0].server.version?.count == 128)
      let huge = try await bouncer.call(
        "server/analytics", authorization: server.header, type: "application/x-www-form-urlencoded",
        body: [UInt8](repeating: 0x61, count: 16 << 20 + 1))
      #expect(huge.status == 413)
    }
  }
}

@Suite("server/billing")
struct BillingTests {
  private static let user =
    #"{"uuid":"e502dde1-74fb-44bc-9b9f-2b8b3a2f3e10","email":"a@b.org","full_name":"A"}"#

  @Test
  func `leads to a page of this service`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let realm = try await bouncer.realm(of: server)
      let answer = try await bouncer.post(
        "server/billing",
        [("user", Self.user), ("realm", bouncer.realmJSON(realm).text), ("next_page", "plans")], as: server)
      let url = try #require(answer.json["billing_access_url"]?.string)
      #expect(url.hasPrefix("https://push.example.org/api/v1/remotes/"))
      let page = try await bouncer.call(String(url.split(separator: "/").last ?? ""), .get)
      #expect(page.status == 200)
      #expect(page.text.contains("no plans"))
    }
  }

  @Test
  func `refuses what is wrong`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let other = try await bouncer.server("other.example.org")
      let mine = bouncer.realmJSON(try await bouncer.realm(of: server)).text
      let foreign = try await bouncer.realm(of: other)
      let theirs = bouncer.realmJSON(foreign).text
      let unknown = bouncer.realmJSON("e502dde1-74fb-44bc-9b9f-2b8b3a2f3e10").text
      let mismatch =
        "Your organization is registered to a different Zulip server. \(Bouncer.gettingBack(foreign))"
      let table: [([(String, String)], Int, String, String)] = [
        ([("realm", mine)], 400, "REQUEST_VARIABLE_MISSING", "Missing 'user' argument"),
        ([("user", Self.user)], 400, "REQUEST_VARIABLE_MISSING", "Missing 'realm' argument"),
        ([("user", "x"), ("realm", mine)], 400, "BAD_REQUEST", "user is not valid JSON"),
        ([("user", "{}"), ("realm", mine)], 400, "BAD_REQUEST", #"user["uuid"] field is missing"#),
        ([("user", Self.user), ("realm", "[]")], 400, "BAD_REQUEST", #"realm["id"] field is missing"#),
        (
          [("user", Self.user), ("realm", mine), ("uri_scheme", "ftp://")], 400, "BAD_REQUEST",
          "Invalid uri_scheme"
        ),
        (
          [("user", Self.user), ("realm", mine), ("next_page", "x")], 400, "BAD_REQUEST", "Invalid next_page"
        ),
        ([("user", Self.user), ("realm", theirs)], 403, "REMOTE_REALM_SERVER_MISMATCH_ERROR", mismatch),
        (
          [("user", Self.user), ("realm", unknown)], 403, "MISSING_REMOTE_REALM",
          "Organization not registered"
        ),
      ]
      for (form, status, code, message) in table {
        let answer = try await bouncer.post("server/billing", form, as: server)
        #expect(answer.message == message)
        #expect(answer.status == status, "\(message)")
        #expect(answer.code == code, "\(message)")
      }
    }
  }
}
