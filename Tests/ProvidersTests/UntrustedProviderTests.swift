import Foundation
import NIOCore
import TestSupport
import Testing

@testable import Providers

/// Whoever stands between this service and a provider learns nothing: no token, no credential, no notification.
@Suite("Providers that cannot show who they are", .timeLimit(.minutes(10)))
struct UntrustedProviderTests {
  enum Fault: String, CaseIterable, Sendable {
    case untrusted, expired, wrongName, addressOnly, noForwardSecrecy

    func certificate() throws -> TestCertificate {
      switch self {
      case .untrusted: try TestCertificate()
      case .expired: try TestCertificate(end: Date() - 60)
      case .wrongName: try TestCertificate(host: "elsewhere.example.org")
      case .addressOnly: try TestCertificate(address: [127, 0, 0, 1])
      case .noForwardSecrecy: try TestCertificate(ciphers: "RSA+AESGCM")
      }
    }

    /// What is trusted: the server's own certificate where another thing is wrong with it.
    func caFile(_ certificate: TestCertificate) throws -> String {
      self == .untrusted ? try TestCertificate.shared.get().caFile : certificate.caFile
    }
  }

  @Test(arguments: [nil] + Fault.allCases.map(Optional.init))
  func `Apple's is told nothing, and is tried again later`(_ fault: Fault?) async throws {
    let certificate = try fault?.certificate() ?? TestCertificate(ciphers: "ECDHE+AESGCM")
    let server = try await TestServer.start(certificate: certificate) { _ in [.answer(200)] }
    let providers = try PushProviders(
      configuration: .init(
        apnsEndpoint: URL(string: "https://localhost:\(server.port)"),
        caFile: try fault?.caFile(certificate) ?? certificate.caFile))
    providers.use(Credentials(apns: [TestKeys.apnsCredential()]))
    let outcome = await APNsTests.send(APNsTests.push(), providers)
    Self.check(outcome, of: fault)
    #expect(server.requests.count == (fault == nil ? 1 : 0))
    await providers.shutdown()
    try await server.stop()
  }

  @Test(arguments: Fault.allCases.map(Optional.init))
  func `Google's is told nothing, and is tried again later`(_ fault: Fault?) async throws {
    let oauth = try await FCMTests.start()
    let certificate = try fault?.certificate() ?? TestCertificate(ciphers: "ECDHE+AESGCM")
    let server = try await TestServer.start(certificate: certificate) { _ in [.answer(200, [], "{}")] }
    let providers = try PushProviders(
      configuration: .init(
        fcmEndpoint: URL(string: "https://localhost:\(server.port)"),
        caFile: try fault?.caFile(certificate) ?? certificate.caFile))
    providers.use(Credentials(fcm: [try TestKeys.fcmCredential(tokenPort: oauth.port)]))
    let outcome = await FCMTests.send(providers)
    Self.check(outcome, of: fault)
    #expect(server.requests.count == (fault == nil ? 1 : 0))
    await providers.shutdown()
    try await server.stop()
    try await oauth.stop()
  }

  @Test(arguments: [nil, Fault.wrongName, .addressOnly])
  func `Google's sign-in is told nothing, and is tried again later`(_ fault: Fault?) async throws {
    let certificate = try fault?.certificate() ?? TestCertificate(host: "localhost")
    let oauth = try await TestWebServer.start(certificate: certificate) { _ in .status(503) }
    let providers = try PushProviders(configuration: .init(caFile: certificate.caFile))
    let url = try #require(URL(string: "https://localhost:\(oauth.port)/token"))
    providers.use(Credentials(fcm: [try TestKeys.fcmCredential(tokenURI: url)]))
    #expect(await FCMTests.send(providers) == .retry(.tokenUnavailable, notBefore: nil, scope: .route))
    #expect(oauth.requests.isEmpty == (fault != nil))
    await providers.shutdown()
    try await oauth.stop()
  }

  /// No answer of a stranger's ends a registration: it is for later.
  private static func check(_ outcome: Outcome, of fault: Fault?) {
    switch outcome {
    case .delivered: #expect(fault == nil)
    case .retry: #expect(fault != nil)
    default: Issue.record("\(outcome)")
    }
  }
}
