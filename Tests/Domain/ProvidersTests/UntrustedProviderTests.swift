import Foundation
import NIOCore
import TestServers
import TestSupport
import Testing

@testable import HTTPClient
@testable import Providers

/// Tests that an attacker between this service and a provider learns no token, no credential and no
/// notification.
@Suite("Providers that cannot show who they are")
struct UntrustedProviderTests {
  enum Service: CaseIterable, Sendable {
    case apple, google, signIn, pushService
  }

  enum Fault: CaseIterable, Sendable {
    case none, untrusted, expired, wrongName, addressOnly, noForwardSecrecy

    /// Of a connection that cannot be made because of it.
    var failure: ConnectionFailure? {
      switch self {
      case .none: nil
      case .untrusted: .certificateUntrusted
      case .expired: .certificateExpired
      case .wrongName, .addressOnly: .certificateNameMismatch
      case .noForwardSecrecy: .tlsFailed
      }
    }

    func certificate() throws -> TestCertificate {
      switch self {
      case .none: try TestCertificate(ciphers: "ECDHE+AESGCM")
      case .untrusted: try TestCertificate()
      case .expired: try TestCertificate(end: Date() - 60)
      case .wrongName: try TestCertificate(host: "elsewhere.example.org")
      case .addressOnly: try TestCertificate(address: [127, 0, 0, 1])
      case .noForwardSecrecy: try TestCertificate(ciphers: "RSA+AESGCM")
      }
    }
  }

  /// No answer of a stranger's ends a registration: it is for later.
  @Test(arguments: Service.allCases, Fault.allCases)
  func `One is told nothing, and tried again later, with the reason that is its own`(
    _ service: Service, _ fault: Fault
  ) async throws {
    let certificate = try fault.certificate()
    let server = try await TestServer.start(certificate: certificate) { _ in
      [.answer(200, [], #"{"name":"projects/demo/messages/1"}"#)]
    }
    let oauth = try await FCMTests.start()
    let url = try #require(URL(string: "https://localhost:\(server.port)"))
    // The server's own certificate is trusted where another thing is wrong with it.
    let caFile = fault == .untrusted ? try TestCertificate.shared.get().caFile : certificate.caFile
    let providers = try PushProviders(
      configuration: .init(
        endpoints: [.apns: url, .fcm: url], caFile: caFile,
        webPush: .init(key: VAPIDKey(), contact: "mailto:a@example.org", privateHosts: ["localhost"])),
      resolve: { _ in ["127.0.0.1"] }, now: { Date() })
    let tokenURI =
      service == .signIn ? url : try #require(URL(string: "http://127.0.0.1:\(oauth.port)/token"))
    providers.use(
      Credentials(apns: [TestKeys.apnsCredential()], fcm: [try TestKeys.fcmCredential(tokenURI: tokenURI)]))
    let push: Push =
      switch service {
      case .apple: APNsTests.push()
      case .google, .signIn: .fcm(FCMTests.message)
      case .pushService: try WebPushTests.push(to: "\(url)/1")
      }
    let outcome = await providers.sendOnce(push, within: .seconds(20))
    // What has answered here is no sign-in.
    #expect(outcome.label == (fault == .none && service != .signIn ? "delivered" : "retry"))
    if let failure = fault.failure {
      #expect(outcome.reason == (service == .signIn ? failure.signInReason : failure.reason))
    }
    #expect(server.requests.count == (fault == .none ? 1 : 0))
  }
}
