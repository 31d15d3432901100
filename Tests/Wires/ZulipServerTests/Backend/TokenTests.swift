import Foundation
import HTTP
import HTTPTypes
import TestSupport
import Testing

@Suite("The backend's token", .host) struct TokenTests {
  private let host = Fixture<Host>.current

  static let endpoints: [(HTTPRequest.Method, String)] = [
    (.put, "realms/x"), (.put, "realms/x/users/1"), (.delete, "realms/x/users/1"),
    (.post, "realms/x/users/1/app-passwords"), (.delete, "realms/x/users/1/app-passwords/1"),
    (.post, "realms/x/users/1/notifications"),
  ]

  @Test(arguments: endpoints)
  func `is wanted before anything else is looked at`(_ method: HTTPRequest.Method, _ path: String)
    async throws
  {
    for authorization in [
      nil, "", "Bearer", "Bearer ", "Bearer the-backend-toke", "Bearer the-backend-token2",
      "Basic the-backend-token", "the-backend-token",
    ] {
      for method in [method, .get, .options] {
        let answer = try await host.call(
          method, path, authorization: authorization, body: Array("no JSON".utf8))
        #expect(answer.status == 401, "\(method) \(authorization ?? "nothing")")
        #expect(answer.headers[.wwwAuthenticate] == "Bearer")
        #expect(answer.json["result"] == "error" && answer.json["code"] == "UNAUTHORIZED")
        #expect(answer.message.contains("backend.token"))
        #expect(!answer.text.contains(Host.token))
      }
    }
  }

  @Test(arguments: endpoints)
  func `is taken with its scheme in any case, and then the request is looked at`(
    _ method: HTTPRequest.Method, _ path: String
  ) async throws {
    for scheme in ["Bearer", "bearer", "BEARER"] {
      let answer = try await host.call(method, path, authorization: "\(scheme) \(Host.token)")
      #expect(answer.status == 400)
    }
    let wrong = try await host.call(.get, path)
    #expect(wrong.status == 405)
    #expect(wrong.headers[.allow]?.contains(method.rawValue) == true)
  }

  @Test(arguments: endpoints)
  func `is what there has to be for there to be anything`(_ method: HTTPRequest.Method, _ path: String)
    async throws
  {
    try await Host.test(token: nil) { host in
      for authorization in [nil, "Bearer ", "Bearer \(Host.token)"] {
        let answer = try await host.call(method, path, authorization: authorization)
        #expect(answer.status == 404)
        #expect(answer.text == #"{"result":"error","msg":"Not found","code":"BAD_REQUEST"}"# + "\n")
      }
    }
  }

  @Test
  func `cannot be guessed at for long, and who has it is let in all the same`() async throws {
    for number in 0...20 {
      let answer = try await host.call(
        .put, "realms/x", authorization: "Bearer \(number)", from: "192.0.2.1")
      #expect(answer.status == 401)
    }
    for authorization in ["Bearer 21", "Bearer \(Host.token)"] {
      let answer = try await host.call(.put, "realms/x", authorization: authorization, from: "192.0.2.1")
      #expect(answer.status == 429)
      #expect(answer.headers[.retryAfter] == "2.0")
    }
    #expect(try await host.call(.put, "realms/x").status == 400)
    // Without one at all nothing was guessed.
    for _ in 0..<30 {
      #expect(try await host.call(.put, "realms/x", authorization: nil, from: "192.0.2.2").status == 401)
    }
    #expect(try await host.call(.put, "realms/x", from: "192.0.2.2").status == 400)
  }

  @Test
  func `opens nothing that is not there`() async throws {
    for path in ["", "realms", "nothing", "realms/x/users", "realms/x/users/1/devices"] {
      let status = try await host.call(.put, path).status
      #expect(status == 404, "\(path)")
    }
  }
}
