import Foundation
import NIOCore
import TestServers
import TestSupport
import Testing

@testable import HTTPClient
@testable import Providers

@Suite("Calls to the upstream bouncer")
struct UpstreamCallTests {
  @Test func `go by HTTP/1.1 where it speaks no other, and an answer is cut at its limit`()
    async throws
  {
    // More than one read takes from a connection.
    let page = String(repeating: "x", count: 4 * ProviderResponse.maximumBody)
    let server = try await TestWebServer.start { _ in .init(body: page) }
    let url = try #require(URL(string: "https://127.0.0.1:\(server.port)"))
    var configuration = PushProviders.Configuration(caFile: try TestCertificate.shared.get().caFile)
    configuration.upstream = .init(url: url) { _ in .init("Basic x", since: .distantPast) }
    let providers = try PushProviders(configuration: configuration)
    let upstream = try #require(providers.upstream)
    let answer = try await upstream.call(.init(get: "server/x"), of: .chatServer(1), within: .seconds(30))
    #expect(answer.status == 200)
    #expect(answer.body.readableBytes == ProviderResponse.maximumBody)
    #expect(server.requests.map(\.path) == ["/api/v1/remotes/server/x"])
    await providers.shutdown()
  }

  @Test(arguments: [
    (200, "<html>", false, Reason.unreadableAnswer), (200, "", false, .unreadableAnswer),
    (200, "", true, .unreadableReceipt), (200, #"{"result":"succ"#, true, .unreadableReceipt),
    (200, #"{"result":"success","delete_token_ids":"all"}"#, false, .unreadableReceipt),
    (502, "<html>", true, .serverError),
  ])
  func `that it may have carried out are made again slowly`(
    status: Int, body: String, isCut: Bool, reason: Reason
  ) {
    let answer = ProviderResponse(status: status, body, isCut: isCut)
    let outcome = Outcome(upstream: answer) { Date() }
    #expect(outcome == .retry(reason, notBefore: nil, scope: .tokenOrRoute))
    #expect(outcome.isInDoubt == (reason == .unreadableReceipt))
  }
}
