import AsyncHTTPClient
import Foundation
import NIOSSL
import TestServers
import TestSupport
import Testing

@testable import HTTPClient
@testable import Providers

@Suite("Connections and calls")
struct ConnectionReasonTests {
  @Test func `that fail have a reason each, and where it may be Google's sign-in, one that says so`() {
    for failure in ConnectionFailure.allCases {
      #expect(failure.reason.rawValue == failure.rawValue)
      #expect(failure.reason.connectionFailure?.failure == failure)
      #expect(!failure.reason.concernsSignIn)
      // What concerns this machine or its proxy alone has the same reason in both.
      guard failure.signInReason != failure.reason else { continue }
      #expect(failure.signInReason.concernsSignIn)
      #expect(failure.signInReason.explanation.meaning.contains("Google's sign-in"))
      #expect(failure.signInReason.explanation.meaning != failure.reason.explanation.meaning)
    }
    #expect(ConnectionFailure.connectionRefused.signInReason == Reason("signInConnectionRefused"))
    #expect(ConnectionFailure.tlsFailed.signInReason == Reason("signInTlsFailed"))
    let signIn = Reason.allCases.filter { $0.rawValue.hasPrefix("signIn") && $0 != .signInTimeout }
    #expect(signIn.allSatisfy { $0.connectionFailure?.isOfSignIn == true })
  }

  private static func configuration(_ caFile: String) -> HTTPClient.Configuration {
    var tls = TLSConfiguration.makeClientConfiguration()
    tls.additionalTrustRoots = [.file(caFile)]
    return HTTPClient.Configuration(tlsConfiguration: tls)
  }

  /// Runs a test with a client to which every name is this machine.
  private static func withClient(_ caFile: String, _ test: (OutgoingClient) async throws -> Void) async throws
  {
    let client = OutgoingClient(configuration: configuration(caFile), resolve: { _ in ["127.0.0.1"] }) { _ in
      true
    }
    try await withCleanUp {
      try await test(client)
    } cleanUp: {
      await client.shutdown()
    }
  }

  @Test
  func `that have no answer have a reason`() async throws {
    @Sendable func reason(_ client: OutgoingClient, port: Int, within seconds: Double = 20) async -> Reason? {
      do {
        _ = try await client.execute(
          HTTPClientRequest(url: "https://chat.example.org:\(port)/x"), limit: 100, timeout: .seconds(seconds)
        )
        return nil
      } catch {
        return Reason(ofCall: error)
      }
    }
    let shared = try TestCertificate.shared.get()
    let silent = try await TestListener.start(certificate: nil) { _, _ in }
    let gone = try await TestListener.start(certificate: nil) { _, _ in }
    try await gone.stop()
    try await Self.withClient(shared.caFile) { client in
      #expect(await reason(client, port: gone.port) == .connectionRefused)
      #expect(await reason(client, port: silent.port, within: 0.5) == .timeout)
      try await OthersHost.run(certified: "elsewhere.example.org") { other in
        #expect(await reason(client, port: other.port) == .certificateUntrusted)
        try await Self.withClient(other.caFile) { trusting in
          #expect(await reason(trusting, port: other.port) == .certificateNameMismatch)
        }
      }
      try await OthersHost.runInClear { other in
        #expect(await reason(client, port: other.port) == .notTLS)
      }
    }
    let nameless = OutgoingClient(configuration: Self.configuration(shared.caFile), resolve: { _ in [] }) {
      _ in true
    }
    #expect(await reason(nameless, port: 443) == .nameNotResolved)
    await nameless.shutdown()
  }
}
