import NIOCore
import TestServers
import TestSupport
import Testing

@testable import Providers

/// Tests floods from a push service, which any owner of a subscription can choose.
@Suite("Push services that pour")
struct FloodTests {
  enum Flood: String, CaseIterable, Sendable {
    case promises, longFrames, plainHTTP, switched, informed, hinted, unasked, endlessHead, endlessBody

    /// SETTINGS with nothing in them (RFC 9113 section 6.5).
    private static let settings: [UInt8] = [0, 0, 0, 4, 0, 0, 0, 0, 0]
    private static let nothing = [UInt8](repeating: 0, count: 1024)

    var speech: FloodServer.Speech {
      switch self {
      case .promises:
        .init(Self.settings + [0, 0, 4, 5, 4, 0, 0, 0, 1], then: Self.nothing, protocols: ["h2"])
      case .longFrames:
        .init(Self.settings + [0xff, 0, 0, 0, 0, 0, 0, 0, 1], then: Self.nothing, protocols: ["h2"])
      case .plainHTTP: .init("HTTP/1.1 200 OK\r\n\r\n".utf8, then: Self.nothing, protocols: ["h2"])
      case .switched:
        .init(
          "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n".utf8,
          then: Self.nothing)
      case .informed: .init("HTTP/1.1 199 Wait\r\nContent-Length: 5\r\n\r\n".utf8, then: Self.nothing)
      case .hinted:
        .init("HTTP/1.1 103 Early Hints\r\n\r\n".utf8, then: "HTTP/1.1 103 Early Hints\r\n\r\n".utf8)
      case .unasked:
        .init("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n".utf8, then: "HTTP/1.1 201 X\r\n\r\n".utf8)
      case .endlessBody: .init("HTTP/1.1 201 Created\r\n\r\n".utf8, then: Self.nothing)
      case .endlessHead:
        .init("HTTP/1.1 201 Created\r\n".utf8, then: "a: \(String(repeating: "b", count: 60))\r\n".utf8)
      }
    }
  }

  @Test(arguments: Flood.allCases)
  func `Of what one says against the rules nothing more is read`(_ flood: Flood) async throws {
    let certificate = try TestCertificate.shared.get()
    let server = try await FloodServer.start(certificate: certificate, flood.speech)
    let providers = try WebPushTests.providers()
    let outcome = try await WebPushTests.send(
      WebPushTests.push(to: "https://127.0.0.1:\(server.port)/1"), providers, within: 5)
    await eventually("the connection's end") { server.openConnections == 0 }
    // What the kernel holds between the two, and no more.
    #expect(server.written < 16 << 20)
    #expect((outcome == .delivered) == (flood == .unasked || flood == .endlessBody))
  }
}
