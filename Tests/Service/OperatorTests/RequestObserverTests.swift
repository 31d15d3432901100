import Foundation
import HTTP
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Logging
import Operator
import TestSupport
import Testing

@Suite struct RequestObserverTests {
  /// Calls a small service and gives back what was logged and what was measured.
  private func observe(
    _ calls: @escaping @Sendable (any TestClientProtocol) async throws -> Void
  ) async throws -> (requests: [String], metrics: String) {
    let registry = PrometheusRegistry()
    let log = LogRecorder()
    let router = Routes()
    router.add(RequestObserver(factory: registry))
    router.add(EnvelopeLayer())
    router.endpoint("/things/:id", .get) { _, _ in Response(status: .ok) }
    router.endpoint("/known", .get) { _, context in
      context.notes.record(server: "chat.example.org")
      context.notes.record(realm: UUID(uuidString: "E502DDE1-74FB-44B4-9B3F-B1B2F8C1C5A1"))
      throw APIError(.forbidden, code: "NOT_NOW", "secret")
    }
    router.endpoint("/broken", .get) { _, _ -> Response in throw CocoaError(.fileNoSuchFile) }
    try await Application(responder: router.buildResponder(), logger: log.logger).test(.router) {
      try await calls($0)
    }
    return (log.texts.filter { $0.hasPrefix("info request ") }, await registry.text())
  }

  @Test func `Requests are counted by route and never by path`() async throws {
    let (requests, metrics) = try await observe { client in
      for id in ["secret-1", "secret-2"] {
        try await client.execute(uri: "/things/\(id)?token=secret-3", method: .get) {
          #expect($0.status == .ok)
        }
      }
    }
    #expect(
      metrics.contains(
        #"push_bouncer_http_requests_total{method="GET",path="/things/{id}",status="200"} 2"#)
    )
    #expect(metrics.contains(#"push_bouncer_http_request_duration_seconds_count{path="/things/{id}"} 2"#))
    #expect(requests.count == 2)
    #expect(!"\(requests) \(metrics)".contains("secret"))
  }

  @Test func `The line of a request says who called and what came of it`() async throws {
    let (requests, _) = try await observe { client in
      try await client.execute(uri: "/known?secret", method: .get) { #expect($0.status == .forbidden) }
    }
    let line = try #require(requests.first)
    for field in [
      "server", "chat.example.org", "realm", "e502dde1-74fb-44b4-9b3f-b1b2f8c1c5a1", "error", "NOT_NOW",
      "client",
      "127.0.0.1", "status", "403",
    ] {
      #expect(line.contains(field), "\(field) in \(line)")
    }
    #expect(!line.contains("secret"))
  }

  @Test func `Unknown paths are one route`() async throws {
    let (requests, metrics) = try await observe { client in
      for path in ["/secret-1", "/secret-2/x", "/things/a/secret-3"] {
        try await client.execute(uri: path, method: .get) { #expect($0.status == .notFound) }
      }
    }
    #expect(
      metrics.contains(#"push_bouncer_http_requests_total{method="GET",path="unmatched",status="404"} 3"#)
    )
    #expect(requests.count == 3)
    #expect(!"\(requests) \(metrics)".contains("secret"))
  }

  @Test func `Strangers fill no log`() async throws {
    let (clock, log) = (TestClock(), LogRecorder())
    let router = Routes()
    router.add(RequestObserver(factory: PrometheusRegistry(), now: { clock.now }))
    router.add(EnvelopeLayer())
    router.endpoint("/server", .get) { _, context in
      context.notes.record(server: "chat.example.org")
      throw APIError("no")
    }
    try await Application(responder: router.buildResponder(), logger: log.logger).test(.router) { client in
      for _ in 0..<1000 {
        try await client.execute(uri: "/nothing", method: .get) { #expect($0.status == .notFound) }
        try await client.execute(uri: "/server", method: .get) { #expect($0.status == .badRequest) }
      }
      func count(_ text: String) -> Int { log.texts.filter { $0.contains(text) }.count }
      #expect(count("unmatched") == 300 && count("chat.example.org") == 1000)
      clock.advance(60)
      try await client.execute(uri: "/nothing", method: .get) { #expect($0.status == .notFound) }
      #expect(count("unmatched") == 301 && count("left out") == 1)
      #expect(log.texts.first { $0.contains("left out") }?.contains("700") == true)
    }
  }

  @Test func `Unknown methods are one method`() async throws {
    let (requests, metrics) = try await observe { client in
      for name in ["SECRET1", "SECRET2"] {
        let method = try #require(HTTPRequest.Method(name))
        try await client.execute(uri: "/things/1", method: method) { #expect($0.status.code >= 400) }
      }
    }
    #expect(metrics.contains(#"method="other""#))
    #expect(requests.count == 2)
    #expect(!"\(requests) \(metrics)".contains("SECRET"))
  }

  @Test func `Errors are counted as the answers they become`() async throws {
    let (requests, metrics) = try await observe { client in
      try await client.execute(uri: "/broken", method: .get, headers: [.xRequestID: "r-1"]) {
        #expect($0.status == .internalServerError)
      }
      try await client.execute(uri: "/things/1", method: .post) { #expect($0.status == .methodNotAllowed) }
    }
    #expect(metrics.contains(#"{method="GET",path="/broken",status="500"} 1"#))
    #expect(metrics.contains(#"{method="POST",path="/things/{id}",status="405"} 1"#))
    #expect(requests.first?.contains("r-1") == true)
  }

  @Test func `What a newer sender adds is counted each time and logged once`() async throws {
    let (registry, log) = (PrometheusRegistry(), LogRecorder())
    let router = Routes()
    router.add(RequestObserver(factory: registry))
    router.add(EnvelopeLayer())
    router.endpoint("/things/:id", .post) { request, context in
      var parameters = try Parameters(query: request)
      _ = parameters.optional("known")
      var additions = Additions()
      additions.addMembers(
        of: ["known": 1, "description": 1, "description": 2], at: "realms[]", except: ["known"])
      additions.addValue("33", of: "realms[].org_type")
      context.notes.record(additions)
      return parameters.success(noting: context.notes)
    }
    let token = String(repeating: "c0ffee", count: 12)
    try await Application(responder: router.buildResponder(), logger: log.logger).test(.router) { client in
      for _ in 0..<3 {
        try await client.execute(uri: "/things/1?known=1&newer=1&server_uuid=1&\(token)=1", method: .post) {
          #expect($0.status == .ok)
        }
      }
      // Strangers may invent any number.
      for number in 0..<100 {
        try await client.execute(uri: "/things/1?a\(number)=1", method: .post) { _ in }
      }
    }
    let told = log.lines.filter { $0.message.contains("a newer Zulip") }.map(\.metadata)
    func texts(_ kind: String) -> [String] { told.compactMap { $0[kind]?.description } }
    #expect(texts("member") == ["realms[].description"] && texts("value") == ["realms[].org_type: 33"])
    #expect(Set(texts("parameter").prefix(2)) == ["newer", "(other)"] && texts("parameter").count == 20)
    #expect(told.allSatisfy { $0["route"]?.description == "/things/{id}" })
    let metrics = await registry.text()
    let path = #"path="/things/{id}""#
    for (part, count) in [("member", 206), ("value", 103), ("parameter", 106)] {
      let line = try #require(
        metrics.split(separator: "\n").first {
          $0.hasPrefix("push_bouncer_unknown_input_total{") && $0.contains(#"part="\#(part)""#)
        })
      #expect(line.contains(path) && line.hasSuffix(" \(count)"))
    }
    #expect(!log.texts.joined().contains(token) && !metrics.contains(token))
  }
}
