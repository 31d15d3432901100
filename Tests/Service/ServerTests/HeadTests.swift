import Foundation
import HTTPTypes
import NIOCore
import NIOPosix
import TestService
import TestSupport
import Testing

@testable import Server

/// HEAD, which is answered as GET without the content, on connections that live on.
@Suite struct HeadTests {
  /// The head of an answer.
  private struct Head {
    var status: Int
    var length: String?
    var isChunked: Bool
  }

  /// Sends HEAD and then GET on one connection, and reads their answers as a client does: nothing follows the first
  /// head but the second answer.
  private func answers(_ path: String, port: Int) async throws -> (head: Head, get: Head) {
    let request = { (method: String, more: String) in
      "\(method) \(path) HTTP/1.1\r\nHost: localhost\r\n\(more)\r\n"
    }
    let received = try await RawConnection.exchange(
      [request("HEAD", "") + request("GET", "Connection: close\r\n")], port: port)
    let first = try #require(received.range(of: "\r\n\r\n"), "\(path): \(received)")
    let rest = received[first.upperBound...]
    #expect(rest.hasPrefix("HTTP/1.1 "), "\(path): \(received)")
    let second = try #require(rest.range(of: "\r\n\r\n"), "\(path): \(received)")
    return (head(received[..<first.lowerBound]), head(rest[..<second.lowerBound]))
  }

  private func head(_ text: Substring) -> Head {
    let lines = text.split(separator: "\r\n")
    func field(_ name: String) -> String? {
      lines.first { $0.lowercased().hasPrefix("\(name):") }.map {
        $0.dropFirst(name.count + 1).trimmingCharacters(in: .whitespaces)
      }
    }
    return Head(
      status: lines.first?.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0,
      length: field("content-length"), isChunked: field("transfer-encoding") != nil)
  }

  @Test func `On every path, also where nothing is or another method is wanted`() async throws {
    let settings = TestService.everything(
      String(repeating: "0123456789abcdef", count: 4), ["http.rate_limit.per_address": "0"])
    try await TestService.run(settings, clock: TestClock(nil), isWorking: true) { test in
      let service = test.service
      for (endpoints, port) in [
        (service.endpoints, await service.publicPort.wait()),
        (service.operatorEndpoints, await service.adminPort.wait()),
      ] {
        let paths = Set(endpoints.routes.map { $0.path.replacing(#/{[a-z_]+}/#, with: "1") })
        #expect(paths.count >= 8)
        for path in paths.union(["/nothing", "/api/v1/nothing", "/ocs/v2.php/nothing", "/admin/nothing"]) {
          let (head, get) = try await answers(path, port: port)
          #expect(head.status == get.status, "\(path)")
          #expect(!head.isChunked, "\(path)")
          // What counts something changes from call to call.
          guard !["/metrics", "/admin", "/readyz"].contains(path) else { continue }
          #expect(head.length == nil || head.length == get.length, "\(path)")
        }
      }
    }
  }

  @Test func `Where a limit is reached`() async throws {
    try await TestService.run(
      ["http.rate_limit.per_address": "1/60s"], clock: TestClock(nil), isWorking: true
    ) { test in
      let port = await test.service.publicPort.wait()
      let path = "/api/v1/remotes/server/register/verify_challenge"
      _ = try await answers(path, port: port)
      let (head, get) = try await answers(path, port: port)
      #expect(head.status == 429 && get.status == 429)
    }
  }

  @Test func `Where the path is none, and the connection ends`() async throws {
    try await TestService.run(clock: TestClock(nil), isWorking: true) { test in
      let received = try await RawConnection.exchange(
        ["HEAD /\u{e9} HTTP/1.1\r\nHost: localhost\r\n\r\n"], port: await test.service.publicPort.wait())
      #expect(received.hasPrefix("HTTP/1.1 400") && received.hasSuffix("\r\n\r\n"), "\(received)")
    }
  }
}
