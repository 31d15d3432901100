import AsyncHTTPClient
import Foundation
import HTTP
import NIOCore
import NIOHTTP1
import TestSupport
import Testing

extension Chaos {
  /// Tests how much memory strangers and servers can make the process use.
  @Suite struct BodyMemoryTests {
    private var place: Workplace { Fixture.current }

    /// In kilobytes.
    private static let limit = 200 * 1024
    private static let length = 16 << 20

    @Test(.place()) func `Sixty held bodies take no more than their share`() async throws {
      try await place.serve("--nextcloud.enabled", "true", "--log.level", "notice") { running in
        let port = try #require(running.port(of: "public"))
        let head = "POST /notifications HTTP/1.1\r\nHost: a\r\nContent-Length: \(Self.length)\r\n\r\n"
        // All but the last byte.
        var body = ByteBuffer(string: head)
        body.writeRepeatingByte(UInt8(ascii: "a"), count: Self.length - 1)
        var connections: [RawConnection] = []
        for number in 1...60 {
          let connection = try await RawConnection(port: port, from: "127.0.2.\(1 + number % 30)")
          connection.begin(body)
          connections.append(connection)
        }
        // Those that are left have no more room than there is.
        try await eventually("refusals") {
          var refusals = 0
          for connection in connections {
            let text = try await connection.text
            let isRefused = text.hasPrefix("HTTP/1.1 503 ") && text.contains("etry-After: ")
            refusals += isRefused || !connection.isOpen ? 1 : 0
          }
          return refusals >= 56
        }
        // Others have room all the same, which is not there until somebody gives way.
        for _ in 1...5 {
          let answer = try await running.call(
            path: "/notifications", method: "POST", body: Array(repeating: UInt8(ascii: "a"), count: 1000))
          #expect(answer.status == 400)
        }
        #expect(try running.memory("VmHWM") < Self.limit)
        for connection in connections { await connection.close() }
      }
    }

    /// Forms and documents of many small parts, from nobody in particular.
    @Test(.place(), arguments: ["a=&", "a&", "&", "{\"notifications\":[", "[", "{\"\":0,\"a\":"])
    func `What strangers send takes not much more than its length`(_ part: String) async throws {
      try await place.serve("--nextcloud.enabled", "true", "--log.level", "notice") { running in
        let part = Array(part.utf8)
        let body = Array(repeatElement(part, count: Self.length / part.count).joined())
        let answer = try await running.call(
          path: "/notifications", method: "POST", body: body)
        #expect((400..<500).contains(answer.status))
        #expect(try running.memory("VmHWM") < Self.limit)
      }
    }

    /// Documents of many small parts, and one as servers send it, whose last count is of nothing known.
    @Test(.place(begun: true), arguments: ["0", "{}", "[0]", #"{"":0}"#, count("messages_read::hour")])
    func `A report takes not much more than its length`(_ element: String) async throws {
      let server = try await place.run("server", "add", "--hostname", "chat.example.org", "--json").json
      let user = (server["org_id"]?.string ?? "", server["org_key"]?.string ?? "")
      try await place.serve("--log.level", "notice") { running in
        var body = ByteBuffer(string: "installation_counts=[]&realm_counts=[")
        let part = Array(Array(repeating: "\(element),", count: 1000).joined().utf8)
        let last = count("nothing::known") + "]"
        while body.readableBytes + part.count + last.utf8.count <= Self.length { body.writeBytes(part) }
        body.writeString(last)
        var request = HTTPClientRequest(url: running.url("public") + "/api/v1/remotes/server/analytics")
        request.method = .POST
        request.setBasicAuth(username: user.0, password: user.1)
        request.body = .bytes(body)
        let answer = try await HTTPClient.shared.execute(request, timeout: TimeAmount(longestWait))
        #expect(answer.status == .badRequest)
        #expect(try running.memory("VmHWM") < Self.limit)
      }
    }
  }
}

private func count(_ property: String) -> String {
  #"{"property":"\#(property)","realm":1,"id":1,"end_time":1,"subgroup":null,"value":1}"#
}
