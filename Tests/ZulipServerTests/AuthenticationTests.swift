import HTTP
import HTTPTypes
import Sealing
import TestService
import TestSupport
import Testing

@testable import ZulipServer

/// `Documentation/Protocols/Zulip.md` 10.1.
@Suite struct AuthenticationTests {
  @Test func `Who signs in wrongly is told so as Zulip tells it`() async throws {
    try await Chat.test { chat in
      let client = try await chat.user()
      let key = client.key
      func basic(_ text: String) -> String { "Basic " + Base64.encode(Array(text.utf8)) }
      let wrong = String(key.reversed())
      let cases: [(String?, Int, String)] = [
        (nil, 401, "Not logged in: API authentication or user session required"),
        ("Bearer x", 400, "This endpoint requires HTTP basic authentication."),
        ("Basic", 401, "Invalid authorization header for basic auth"),
        ("Basic !!!", 401, "Invalid authorization header for basic auth"),
        (basic("iago@example.org"), 401, "Invalid authorization header for basic auth"),
        (basic("iago@example.org:short"), 401, "Malformed API key"),
        (basic("iago@example.org:\(key)x"), 401, "Malformed API key"),
        (basic("iago@example.org:\(key.dropLast())-"), 401, "Malformed API key"),
        (basic("iago@example.org:\(wrong)"), 401, "Invalid API key"),
        (basic("nobody@example.org:\(key)"), 401, "Invalid API key"),
      ]
      for (header, status, message) in cases {
        let answer = try await chat.call(.post, "/api/v1/register_client_device", authorization: header)
        #expect(answer.status == status)
        #expect(answer.message == message)
        #expect(answer.code == (status == 401 ? "UNAUTHORIZED" : "BAD_REQUEST"))
        if status == 401 { #expect(answer.headers[.wwwAuthenticate] == "Basic realm=\"zulip\"") }
      }
      for right in ["iago@example.org:\(key)", "IAGO@example.ORG:\(key)", " iago@example.org : \(key) "] {
        let answer = try await chat.call(
          .post, "/api/v1/register_client_device", authorization: basic(right))
        #expect(answer.status == 200)
      }
    }
  }

  @Test func `A method that an endpoint does not have is told before who asks`() async throws {
    try await Chat.test { chat in
      let answer = try await chat.call(.get, "/api/v1/mobile_push/register")
      #expect(answer.status == 405)
      #expect(answer.headers[.allow] == "POST")
    }
  }

  @Test func `A user has so many calls, and another one has its own`() async throws {
    try await Chat.test(["server.rate_limit.per_user": "3/60s"]) { chat in
      let client = try await chat.user()
      for _ in 0..<3 { #expect(try await client.call(.post, "register_client_device").status == 200) }
      let answer = try await client.call(.post, "register_client_device")
      #expect(answer.status == 429)
      #expect(answer.code == "RATE_LIMIT_HIT")
      #expect(try await chat.user("desdemona", id: 11).call(.post, "register_client_device").status == 200)
      chat.clock.advance(61)
      #expect(try await client.call(.post, "register_client_device").status == 200)
    }
  }
}
