import Basics
import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import NIOCore
import Synchronization
import TestSupport
import Testing

@testable import HTTP

@Suite struct EndpointTests {
  private struct Surprise: Error {}

  private func application() -> some ApplicationProtocol {
    let router = Routes()
    router.add(EnvelopeLayer())
    router.endpoint("/api/v1/echo", .post) { request, context in
      var parameters = try await Parameters.read(from: request, limit: 100)
      let text = try parameters.required("text")
      return parameters.success([.init("text", .string(text))], noting: context.notes)
    }
    router.endpoint("/surprise", .get) { _, _ in throw Surprise() }
    return Application(
      responder: router.buildResponder(),
      configuration: .init(address: .hostname("127.0.0.1", port: 0)))
  }

  @Test func `Form parameters go before those of the query, and strangers among them are told`() async throws
  {
    try await application().test(.router) { client in
      try await client.execute(
        uri: "/api/v1/echo?text=query&b=1", method: .post,
        headers: [.contentType: "application/x-www-form-urlencoded"],
        body: ByteBuffer(string: "text=a%2Bb&a=1")
      ) { response in
        #expect(response.status == .ok)
        #expect(
          String(buffer: response.body)
            == #"{"result":"success","msg":"","text":"a+b","ignored_parameters_unsupported":["a","b"]}"#
            + "\n")
        #expect(response.headers[.contentType] == "application/json")
      }
      try await client.execute(
        uri: "/api/v1/echo?text=query", method: .post, headers: [.contentType: "application/json"],
        body: ByteBuffer(string: "text=form")
      ) { response in
        #expect(String(buffer: response.body).contains(#""text":"query""#))
      }
    }
  }

  @Test func `Doubled slashes are tolerated`() async throws {
    try await application().test(.live) { client in
      try await client.execute(uri: "//api/v1//echo", method: .post, body: ByteBuffer(string: "text=x")) {
        response in
        #expect(response.status == .ok)
      }
    }
  }

  @Test func `A method that nobody knows is told which there are`() async throws {
    try await application().test(.router) { client in
      let method = try #require(HTTPRequest.Method("QUERY"))
      try await client.execute(uri: "/api/v1/echo", method: method) { response in
        #expect(response.status == .methodNotAllowed)
        #expect(response.headers[.allow] == "POST")
      }
    }
  }

  @Test func `Every error is an envelope that gives nothing away`() async throws {
    try await application().test(.router) { client in
      try await client.execute(uri: "/surprise", method: .get) { response in
        #expect(response.status == .internalServerError)
        #expect(!String(buffer: response.body).contains("Surprise"))
      }
      let body = ByteBuffer(string: "text=" + String(repeating: "x", count: 100))
      try await client.execute(uri: "/api/v1/echo", method: .post, body: body) { response in
        #expect(response.status == .contentTooLarge)
        #expect(String(buffer: response.body).contains(#""result":"error""#))
      }
    }
  }

  @Test(
    arguments: [
      ("10.0.0.9", "1.2.3.4", "10.0.0.9"),
      ("10.0.0.1", "1.2.3.4", "1.2.3.4"),
      ("10.0.0.1", "6.6.6.6, 1.2.3.4", "1.2.3.4"),
      ("10.0.0.1", "6.6.6.6, 1.2.3.4, 10.0.0.2", "1.2.3.4"),
      ("10.0.0.1", "10.0.0.2", "10.0.0.2"),
      ("10.0.0.1", "", "10.0.0.1"),
      ("10.0.0.1", nil, "10.0.0.1"),
      ("::ffff:10.0.0.1", "1.2.3.4", "1.2.3.4"),
      ("2001:db8::1", "1.2.3.4, ::ffff:10.0.0.2", "1.2.3.4"),
      ("10.0.0.4", "1.2.3.4", "10.0.0.4"),
      ("10.0.0.1", "1.2.3.4, example.org", "10.0.0.1"),
      ("10.0.0.1", "1.2.3.4:51844", "1.2.3.4"),
      ("10.0.0.1", "6.6.6.6, 1.2.3.4:51844, 10.0.0.2:443", "1.2.3.4"),
      ("10.0.0.1", "[2001:db9::1]:51844", "2001:db9::1"),
      ("10.0.0.1", "[2001:db9::1]", "2001:db9::1"),
      ("10.0.0.1", "1.2.3.4, [2001:db8::1]:443,[::ffff:10.0.0.2]", "1.2.3.4"),
      ("10.0.0.1", "2001:db9::1:51844", "10.0.0.1"),
      ("10.0.0.1", "1.2.3.4:", "10.0.0.1"),
      ("10.0.0.1", "1.2.3.4:65536", "10.0.0.1"),
      ("10.0.0.1", "1.2.3.4:+1", "10.0.0.1"),
      ("10.0.0.1", "[1.2.3.4]:1", "10.0.0.1"),
      ("10.0.0.1", "[2001:db9::1]51844", "10.0.0.1"),
      ("10.0.0.1", "[2001:db9::1", "10.0.0.1"),
    ] as [(String, String?, String)])
  func `A client's address is the peer's, or what trusted proxies say of it`(
    peer: String, forwardedFor: String?, expected: String
  ) throws {
    let trusted = ["10.0.0.0/30", "2001:db8::/32"].compactMap(ClientAddress.Network.init)
    let peer = try #require(ClientAddress(peer))
    let client = forwardedFor.map { ForwardedFor($0, from: peer, trusted: trusted).client } ?? peer
    #expect("\(client)" == expected)
  }
}

@Suite struct RateRefusalTests {
  @Test func `A key may call so often in a window, then is told when again`() throws {
    let clock = Mutex(Date(timeIntervalSince1970: 1000))
    let rate = Rate<String>(RateLimit(calls: 2, seconds: 60)) { clock.withLock { $0 } }
    try rate.check("a")
    clock.withLock { $0 += 30 }
    try rate.check("a")
    let error = #expect(throws: APIError.self) { try rate.check("a") }
    #expect(error?.status == .tooManyRequests)
    #expect(error?.code == "RATE_LIMIT_HIT")
    #expect(error?.headers[.retryAfter] == "30.0")
    #expect(error?.headers[.xRateLimitReset] == "1060")
    #expect(error?.fields == [.init("retry-after", .number("30.0"))])
    try rate.check("b")
    clock.withLock { $0 += 30 }
    try rate.check("a")
  }
}
