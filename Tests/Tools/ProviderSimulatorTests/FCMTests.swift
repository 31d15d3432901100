import CryptoExtras
import Foundation
import NIOHTTP1
import ProviderSimulator
import TestSupport
import Testing

@Suite(.client) struct FCMTests {
  private let client = Fixture<Client>.current

  @Test func `issues an access token for a good assertion and takes messages with it, in TLS and in clear`()
    async throws
  {
    for endpoint in [client.simulator.fcmEndpoint, "http://127.0.0.1:\(client.simulator.fcmPort)"] {
      let answer = try await client.oauth(client.assertion(), at: endpoint)
      #expect(answer.status == 200)
      #expect(answer.json["expires_in"] as? Int == 3600)
      #expect(answer.json["token_type"] as? String == "Bearer")
      let bearer = try #require(answer.json["access_token"] as? String)
      let sent = try await client.message(
        #"{"message":{"token":"phone:1","data":{"a":"b"},"android":{"priority":"high","ttl":"3.5s"}}}"#,
        bearer: bearer, endpoint: endpoint)
      #expect(sent.status == 200)
      let name = try #require(sent.json["name"] as? String)
      #expect(name.hasPrefix("projects/\(client.simulator.projectID)/messages/"))
      #expect(client.simulator.deliveries().last?.id == name)
      #expect(client.simulator.deliveries().last?.target == client.simulator.projectID)
    }
    #expect(client.simulator.counts.fcm == 2)
    #expect(client.simulator.counts.oauthTokens == 2)
    #expect(client.simulator.counts.connections == 2)
  }

  @Test func `refuses assertions that Google refuses`() async throws {
    let wrong = [
      try client.assertion(key: .init(keySize: .bits2048)), try client.assertion(iss: "other@example.org"),
      try client.assertion(aud: "https://example.org/token"), try client.assertion(age: 4000),
      try client.assertion(lifetime: 7200), try client.assertion(age: -1000),
    ]
    for form in wrong {
      let answer = try await client.oauth(form)
      #expect(answer.status == 400)
      #expect(answer.json["error"] as? String == "invalid_grant")
      #expect(answer.json["error_description"] is String)
    }
    let scope = try await client.oauth(client.assertion(scope: "https://www.googleapis.com/auth/drive"))
    #expect(scope.json["error"] as? String == "invalid_scope")
    let grant = try await client.oauth("grant_type=password")
    #expect(grant.json["error"] as? String == "unsupported_grant_type")
    let google = try await client.oauth(client.assertion(aud: "https://oauth2.googleapis.com/token"))
    #expect(google.status == 200)
  }

  @Test(arguments: [
    (#"{"message":{"token":"t","data":{"id":20}}}"#, "message.data[0].value"),
    (#"{"message":{"token":"t","data":{"from":"x"}}}"#, "message.data[0].key"),
    (#"{"message":{"token":"t","data":{"a":"","message_type":"x"}}}"#, "message.data[1].key"),
    (#"{"message":{"token":"t","data":{"google.x":"x"}}}"#, "message.data[0].key"),
    (
      #"{"message":{"token":"t","android":{"data":{"gcm.notification.e":"1"}}}}"#,
      "message.android.data[0].key"
    ),
    (#"{"message":{"data":{}}}"#, "message"),
    (#"{"message":{"token":"t","topic":"u"}}"#, "message"),
    (#"{"message":{"token":5}}"#, "message.token"),
    (#"{"message":{"fid":5}}"#, "message.fid"),
    (#"{"message":{"token":"t","fid":"cR7dQw4w9WgXcQ-_AbCd09"}}"#, "message"),
    (#"{"message":{"token":"t","colour":"red"}}"#, "message"),
    (#"{"message":{"token":"t","android":{"priority":"urgent"}}}"#, "message.android.priority"),
    (#"{"message":{"token":"t","android":{"ttl":"60"}}}"#, "message.android.ttl"),
    (#"{"message":{"token":"t","android":{"ttl":60}}}"#, "message.android.ttl"),
    (#"{"message":{"token":"t","data":{"k":"\#(String(repeating: "x", count: 4096))"}}}"#, "message"),
    (#"{"msg":{}}"#, ""),
    ("{", ""),
  ]) func `names the field of a message that is wrong`(body: String, field: String) async throws {
    let answer = try await client.message(body, bearer: client.accessToken())
    #expect(answer.status == 400)
    let error = try #require(answer.json["error"] as? [String: Any])
    #expect(error["status"] as? String == "INVALID_ARGUMENT")
    let details = try #require(error["details"] as? [[String: Any]])
    #expect(details.count == 1)
    #expect(details[0]["@type"] as? String == "type.googleapis.com/google.rpc.BadRequest")
    let violations = try #require(details[0]["fieldViolations"] as? [[String: String]])
    #expect(violations[0]["field"] == field)
    #expect(client.simulator.counts.fcm == 0)
  }

  @Test func `takes an installation id in either member, and no token for one`() async throws {
    let bearer = try await client.accessToken()
    let id = "cR7dQw4w9WgXcQ-_AbCd09"
    for (member, recipient, status) in [("fid", id, 200), ("token", id, 200), ("fid", "phone:1", 400)] {
      let answer = try await client.message(#"{"message":{"\#(member)":"\#(recipient)"}}"#, bearer: bearer)
      #expect(answer.status == status)
      guard status == 200 else { continue }
      let delivery = try #require(client.simulator.deliveries().last)
      #expect(delivery.token == id)
      #expect(String(decoding: delivery.payload, as: UTF8.self).contains(#""\#(member)":"\#(id)""#))
    }
    client.simulator.setToken(id, TokenRule(status: 404, reason: "UNREGISTERED"))
    #expect(try await client.message(#"{"message":{"fid":"\#(id)"}}"#, bearer: bearer).status == 404)
  }

  @Test func `takes data up to 4096 bytes and does not keep a validate_only message`() async throws {
    let bearer = try await client.accessToken()
    let value = String(repeating: "x", count: 4095)
    let full = try await client.message(
      #"{"message":{"token":"t","data":{"k":"\#(value)"}}}"#, bearer: bearer)
    #expect(full.status == 200)
    let dry = try await client.message(#"{"validate_only":true,"message":{"token":"t"}}"#, bearer: bearer)
    #expect(dry.status == 200)
    #expect(client.simulator.deliveries().count == 1)
  }

  @Test func `tells a bad access token, another project and a wrong path apart`() async throws {
    let body = #"{"message":{"token":"t"}}"#
    let unknown = try await client.message(body, bearer: "stolen")
    #expect(unknown.status == 401)
    #expect((unknown.json["error"] as? [String: Any])?["status"] as? String == "UNAUTHENTICATED")
    let bearer = try await client.accessToken()
    let project = try await client.message(body, bearer: bearer, project: "another")
    #expect(project.status == 404)
    let error = try #require(project.json["error"] as? [String: Any])
    #expect(error["status"] as? String == "NOT_FOUND")
    #expect(error["details"] == nil)
    let path = try await client.send(.POST, "\(client.simulator.fcmEndpoint)/v2/x", [:], body)
    #expect(path.status == 404)
    #expect(path.headers.first(name: "content-type")?.hasPrefix("text/html") == true)
    client.simulator.revokeAccessTokens()
    #expect(try await client.message(body, bearer: bearer).status == 401)
  }

  @Test func `ends access tokens when their time is up`() async throws {
    var configuration = SimulatedProviders.Configuration()
    configuration.accessTokenLifetime = 0
    try await Client.with(configuration) { client in
      let answer = try await client.message(#"{"message":{"token":"t"}}"#, bearer: client.accessToken())
      #expect(answer.status == 401)
    }
  }

  /// Status and reason of the rule, and the canonical status and error code of the answer.
  typealias Told = (status: Int, reason: String?, canonical: String, code: String?)

  static let told: [Told] = [
    (404, "UNREGISTERED", "NOT_FOUND", "UNREGISTERED"),
    (400, "INVALID_ARGUMENT", "INVALID_ARGUMENT", "INVALID_ARGUMENT"),
    (403, "SENDER_ID_MISMATCH", "PERMISSION_DENIED", "SENDER_ID_MISMATCH"),
    (403, "PERMISSION_DENIED", "PERMISSION_DENIED", nil),
    (404, "NOT_FOUND", "NOT_FOUND", nil),
    (429, "QUOTA_EXCEEDED", "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED"),
    (503, nil, "UNAVAILABLE", "UNAVAILABLE"),
  ]

  @Test(arguments: told) func `answers a token with the error it was told`(told: Told) async throws {
    client.simulator.setToken("phone:1", TokenRule(status: told.status, reason: told.reason))
    let answer = try await client.message(#"{"message":{"token":"phone:1"}}"#, bearer: client.accessToken())
    #expect(answer.status == told.status)
    let error = try #require(answer.json["error"] as? [String: Any])
    #expect(error["status"] as? String == told.canonical)
    let details = error["details"] as? [[String: String]]
    #expect(details?.first?["errorCode"] == told.code)
  }
}
