import Foundation
import HTTPTypes
import NIOCore
import NIOPosix
import TestService
import TestSupport
import Testing

@testable import HTTP
@testable import Server

/// What a head has to say before anything else of a request is looked at (RFC 9112).
@Suite struct RequestHeadTests {
  private static let (one, old) = ("GET / HTTP/1.1\r\n", "GET / HTTP/1.0\r\n")
  private static let next = one + "Host: a\r\n\r\n"

  private func answers(_ text: String) async throws -> [(status: String, closes: Bool)] {
    let received = Counted()
    try await TestService.run(clock: TestClock(nil), isWorking: true) { test in
      await received.set(try await RawConnection.exchange([text], port: test.service.publicPort.wait()))
    }
    return await received.text.components(separatedBy: "HTTP/1.1 ").dropFirst().map {
      (String($0.prefix(3)), $0.lowercased().contains("\r\nconnection: close\r\n"))
    }
  }

  private actor Counted {
    var text = ""
    func set(_ text: String) { self.text = text }
  }

  @Test(
    arguments: [
      one, one + "Host: a\r\nHost: b\r\n", one + "Host: a\r\nHost: a\r\n",
      one + "Host: a\r\nX: y\r\nhost: b\r\n",
      one + "Host: a b\r\n", one + "Host: a/b\r\n", one + "Host: me@a\r\n", old + "Host: a\r\nHost: a\r\n",
      "GET http://a/ HTTP/1.1\r\n",
    ])
  func `A request has one host, or is refused and nothing after it read`(_ head: String) async throws {
    let answers = try await answers(head + "\r\n" + Self.next)
    #expect(answers.map(\.status) == ["400"] && answers.allSatisfy(\.closes))
  }

  @Test(arguments: [one + "Host: push.example.org:8443\r\n", one + "Host: [::1]\r\n", one + "HOST:a\r\n"])
  func `One host is enough`(_ head: String) async throws {
    let answers = try await answers(head + "\r\n" + Self.one + "Host: a\r\nConnection: close\r\n\r\n")
    #expect(answers.map(\.status) == ["404", "404"] && answers.map(\.closes) == [false, true])
  }

  @Test(
    arguments: [
      (old, "404"), (old + "Host: a\r\n", "404"), (old + "Connection: keep-alive\r\n", "404"),
      (one + "Host: a\r\nConnection: TE, close\r\n", "404"),
      (
        "POST /api/v1/remotes/server/register HTTP/1.0\r\nConnection: keep-alive\r\n"
          + "Transfer-Encoding: chunked\r\n\r\n3\r\na=b\r\n0\r\n", "400"
      ),
    ])
  func `Some requests are the last of their connection`(_ head: String, _ status: String) async throws {
    let answers = try await answers(head + "\r\n" + Self.next)
    #expect(answers.map(\.status) == [status] && answers.allSatisfy(\.closes))
  }

  @Test func `A long head takes room as a body does`() async throws {
    let bodies = BodyBudget(limit: 4 << 10, largest: 3 << 10)
    try await TestService.run(bodies: bodies) { test in
      for (length, status) in [(1000, 404), (2500, 404), (4000, 503), (2500, 404)] {
        let answer = try await test.call(
          .get, "/", headers: [.userAgent: String(repeating: "a", count: length)])
        #expect(answer.status == status)
        #expect((answer.headers[.retryAfter] != nil) == (status == 503))
        #expect(bodies.bytes == 0)
      }
    }
  }
}
