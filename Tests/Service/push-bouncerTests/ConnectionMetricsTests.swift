import TestSupport
import Testing

@Suite struct ConnectionMetricsTests {
  @Test func `How keys are agreed on is counted for clients and for Apple`() async throws {
    try await Stage.test { stage in
      try await stage.serve([], isSecure: true) { running, server in
        let phones = try await stage.phones(2, at: server)
        await stage.expectArrival(of: Set(try await server.mark(phones).marks))
        let text = try await running.call("admin", path: "/metrics").text
        func count(_ leg: String, _ group: String) -> Int? {
          let line = text.split(separator: "\n").first {
            $0.hasPrefix("push_bouncer_tls_key_exchange_total{") && $0.contains(#"leg="\#(leg)""#)
              && $0.contains(#"group="\#(group)""#)
          }
          return line?.split(separator: " ").last.flatMap { Int($0) }
        }
        #expect(try #require(count("public", "X25519MLKEM768")) > 0)
        #expect(count("apns", "X25519MLKEM768") == 1)
        // The simulator plays FCM without TLS.
        for leg in ["public", "apns", "fcm", "webpush"] { #expect(count(leg, "other") == 0, "\(leg)") }
      }
    }
  }

  @Test func `The operator sees how many there are and why others were closed`() async throws {
    try await Workplace.test { place in
      try await place.serve("--http.max_connections", "3", "--http.max_connections_per_address", "2") {
        running in
        let port = try #require(running.port(of: "public"))
        func expect(_ lines: String...) async throws {
          try await eventually("\(lines)") {
            let text = try await running.call("admin", path: "/metrics").text
            return lines.allSatisfy { text.contains("push_bouncer_http_connections\($0)\n") }
          }
        }
        var connections: [RawConnection] = []
        for address in ["127.0.3.1", "127.0.3.1", "127.0.3.1", "127.0.3.2"] {
          connections.append(try await RawConnection(port: port, from: address))
        }
        try await expect(
          #"{listener="public"} 3"#, #"_closed_total{listener="public",reason="share"} 1"#,
          #"_closed_total{listener="public",reason="displaced"} 0"#)
        // Who has been answered is there for good.
        for index in [0, 1, 3] {
          try await connections[index].send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
          try await eventually("an answer") { try await connections[index].text.hasPrefix("HTTP/1.1 404 ") }
        }
        connections.append(try await RawConnection(port: port, from: "127.0.3.3"))
        try await expect(
          #"{listener="public"} 3"#, #"_closed_total{listener="public",reason="displaced"} 1"#,
          #"_closed_total{listener="public",reason="full"} 0"#)
        for connection in connections { await connection.close() }
        try await expect(#"{listener="public"} 0"#)
      }
    }
  }
}
