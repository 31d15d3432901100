import Foundation
import TestSupport
import Testing

/// Tests open connections during a graceful shutdown.
@Suite(.serialized, .place()) struct EndingConnectionsTests {
  private let place = Fixture<Workplace>.current

  private let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
  private let first =
    "POST /api/v1/remotes/server/register HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\nhostname"
  private let second = "=a.b"
  private let answer = "404 page not found"

  @Test func `What was taken is answered and the rest closed`() async throws {
    try await place.serve { running in
      let port = try #require(running.port(of: "public"))
      let silent = try await RawConnection(port: port)
      let never = try await RawConnection(port: port)
      let half = try await RawConnection(port: port)
      try await half.send(first)
      let kept = try await RawConnection(port: port)
      let again = try await RawConnection(port: port)
      for connection in [kept, again] {
        try await connection.send(get)
        try await eventually("an answer") { try await connection.text.hasSuffix(answer) }
      }
      try await again.send(first)
      // Connections are taken in turn, so all are by the time at which another one has its answer.
      _ = try await running.call(path: "/")
      running.send(SIGTERM)

      let once = try await kept.rest()
      #expect(once.hasSuffix(answer) && !once.contains("onnection: close"))
      try await silent.send(get)
      try await half.send(second)
      try await again.send(second)
      let late = try await silent.rest()
      #expect(late.hasSuffix(answer) && late.contains("onnection: close"), "\(late)")
      for text in [try await half.rest(), try await again.rest()] {
        #expect(text.contains(#""result":"error""#) && text.contains("onnection: close"), "\(text)")
      }
      #expect(try await never.rest() == "")
      #expect(await running.status() == 0)
    }
  }

  /// Connections that the kernel has accepted but the busy process has not.
  @Test func `What the kernel holds is answered`() async throws {
    try await place.serve { running in
      let port = try #require(running.port(of: "public"))
      running.send(SIGSTOP)
      var connections: [RawConnection] = []
      for _ in 0..<60 {
        let connection = try await RawConnection(port: port)
        try await connection.send(get)
        connections.append(connection)
      }
      running.send(SIGTERM)
      running.send(SIGCONT)
      for connection in connections { #expect(try await connection.rest().hasSuffix(answer)) }
      #expect(await running.status() == 0)
    }
  }
}
