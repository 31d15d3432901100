import Foundation
import HTTPTypes
import Hummingbird
import NIOCore
import NIOPosix
import ServiceLifecycle
import TestService
import TestSupport
import Testing

@testable import HTTP
@testable import Server

/// What a connection sends, byte for byte.
@Suite struct HTTPConnectionTests {
  private static let routes: @Sendable (Routes) -> Void = { router in
    router.add(EnvelopeLayer(bodies: BodyBudget(limit: 64 << 20, largest: 16 << 20)))
    router.endpoint("/short", .get) { _, _ in
      Response(
        status: .ok, headers: [.contentType: "a/b"], body: ResponseBody(byteBuffer: ByteBuffer(string: "abc"))
      )
    }
    router.endpoint("/long", .get) { _, _ in
      Response(
        status: .ok, body: ResponseBody(byteBuffer: ByteBuffer(repeating: UInt8(ascii: "a"), count: 300_000)))
    }
    router.endpoint("/unknown-length", .get) { _, _ in
      Response(
        status: .ok,
        body: ResponseBody { writer in
          for _ in 0..<3 { try await writer.write(ByteBuffer(string: "abc")) }
          try await writer.finish([.contentType: "of a trailer"])
        })
    }
    router.endpoint("/none", .get) { _, _ in
      Response(status: .noContent, body: ResponseBody(byteBuffer: ByteBuffer(string: "abc")))
    }
    router.endpoint("/unchanged", .get) { _, _ in Response(status: .notModified) }
    router.endpoint("/injected", .get) { request, _ in
      let query = request.uri.query?.removingPercentEncoding ?? ""
      return Response(
        status: HTTPResponse.Status(code: 299, reasonPhrase: query),
        headers: [.server: query, .connection: "x"])
    }
    router.endpoint("/echo", .post) { request, _ in
      Response(status: .ok, body: ResponseBody(byteBuffer: try await request.wholeBody(upTo: 1 << 20)))
    }
    router.endpoint("/host", .get) { request, _ in
      Response(
        status: .ok,
        body: ResponseBody(byteBuffer: ByteBuffer(string: "\(request.head.authority ?? "-") \(request.uri)")))
    }
  }

  /// What comes for this, until the other end closes; without the `Date` and the ids of requests.
  private func exchange(_ requests: String..., closingHalf: Bool = false) async throws -> String {
    let router = Routes()
    Self.routes(router)
    return try await withListener(router) { port in
      let received = try await RawConnection.exchange(requests, port: port, closingHalf: closingHalf)
      return received.replacing(/Date: [^\r]* GMT\r\n/, with: "Date: now\r\n")
        .replacing(/X-Request-Id: [0-9a-f]+\r\n/, with: "")
    }
  }

  private static func get(_ path: String, _ fields: String = "", version: String = "1.1") -> String {
    "GET \(path) HTTP/\(version)\r\nHost: a\r\n\(fields)\r\n"
  }

  private static let close = "Connection: close\r\n"
  private static let short =
    "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 3\r\nDate: now\r\n\r\nabc"
  private static let shortAtLast =
    "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 3\r\nDate: now\r\nConnection: close\r\n\r\nabc"

  @Test func `Several requests are answered in turn, and the last one closes`() async throws {
    let (one, last) = (Self.get("/short"), Self.get("/short", Self.close))
    #expect(try await exchange(one + one + last) == Self.short + Self.short + Self.shortAtLast)
    #expect(try await exchange(one, last) == Self.short + Self.shortAtLast)
    let three = (1...3).map { Self.get("/host?\($0)", $0 == 3 ? Self.close : "") }
    for answers in try await [exchange(three.joined()), exchange(three[0], three[1], three[2])] {
      #expect(answers.matches(of: #/a /host\?(\d)/#).map(\.1) == ["1", "2", "3"], "\(answers)")
    }
  }

  @Test func `Who closes its half gets its answer`() async throws {
    #expect(try await exchange(Self.get("/short"), closingHalf: true) == Self.short)
  }

  @Test func `HTTP 1.0 gets an answer of its own length, and no further one`() async throws {
    let requests = Self.get("/short", "Connection: keep-alive\r\n", version: "1.0") + Self.get("/short")
    #expect(try await exchange(requests) == Self.shortAtLast)
  }

  @Test func `The answer to HEAD has the length and not the content`() async throws {
    let requests = "HEAD /short HTTP/1.1\r\nHost: a\r\n\r\n" + Self.get("/short", Self.close)
    #expect(try await exchange(requests) == Self.short.dropLast(3) + Self.shortAtLast)
  }

  @Test(arguments: [("/none", "204 No Content"), ("/unchanged", "304 Not Modified")])
  func `An answer that can have no content has none`(_ path: String, _ status: String) async throws {
    let answers = try await exchange(Self.get(path) + Self.get("/short", Self.close))
    #expect(answers == "HTTP/1.1 \(status)\r\nDate: now\r\n\r\n" + Self.shortAtLast)
  }

  @Test func `A long answer comes whole`() async throws {
    let answers = try await exchange(Self.get("/long") + Self.get("/short", Self.close))
    let content = String(repeating: "a", count: 300_000)
    #expect(
      answers == "HTTP/1.1 200 OK\r\nContent-Length: 300000\r\nDate: now\r\n\r\n" + content + Self.shortAtLast
    )
  }

  @Test(arguments: ["1.0", "1.1"])
  func `An answer of unknown length ends with its connection`(_ version: String) async throws {
    let answers = try await exchange(Self.get("/unknown-length", version: version))
    #expect(answers == "HTTP/1.1 200 OK\r\nDate: now\r\nConnection: close\r\n\r\nabcabcabc")
  }

  @Test func `Nothing can be put into a head`() async throws {
    let answers = try await exchange(
      Self.get("/injected?a%0D%0Ab:%20c%0D%0A%0D%0Ad%00") + Self.get("/short", Self.close))
    #expect(
      answers
        == "HTTP/1.1 299 a  b: c    d \r\nServer: a  b: c    d\r\nContent-Length: 0\r\nDate: now\r\n\r\n"
        + Self.shortAtLast)
  }

  @Test func `A body in chunks comes whole`() async throws {
    let request =
      "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\(Self.close)\r\n"
      + "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    #expect(
      try await exchange(request)
        == "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: now\r\nConnection: close\r\n\r\nabcde")
  }

  @Test func `A body that is not HTTP is refused once`() async throws {
    let request = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nX\r\n"
    let answer = try await exchange(request)
    #expect(answer.hasPrefix("HTTP/1.1 400 Bad Request\r\n") && answer.contains("\r\nConnection: close\r\n"))
    #expect(answer.components(separatedBy: "HTTP/1.1 ").count - 1 == 1, "\(answer)")
  }

  @Test(arguments: [
    ("/host?b", "a /host?b"), ("http://b/host?c", "a /host?c"), ("http://b:1/host", "a /host"),
  ])
  func `A target may be a whole address`(_ target: String, _ seen: String) async throws {
    #expect(try await exchange(Self.get(target, Self.close)).hasSuffix("\r\n\r\n" + seen))
  }

  @Test(arguments: ["GET /short HTTP/1.1\r\n\r\n", "G@T /short HTTP/1.1\r\nHost: a\r\n\r\n"])
  func `What is no request is refused, and nothing after it read`(_ request: String) async throws {
    #expect(
      try await exchange(Self.get("/short") + request + Self.get("/short"))
        == Self.short
        + "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nDate: now\r\nConnection: close\r\n\r\n")
  }
}
