import Foundation
import HTTPTypes
import Hummingbird
import Registrations
import Sealing
import TestSupport
import Testing
import Wire

@testable import Nextcloud

@Suite("A device whose server was set up anew")
struct IdentityProofTests {
  /// A proxy that trusts the host and may call it, with a device whose identifier comes back under another key.
  private func withHost(
    _ configure: @escaping @Sendable (inout NextcloudProxy.Configuration) -> Void = { _ in },
    _ test:
      @escaping @Sendable (ProxyBench, OthersHost, _ old: ProxyPhone, _ new: ProxyPhone) async throws -> Void
  ) async throws {
    try await OthersHost.run { host in
      try await ProxyBench.test({
        $0.configuration.identityProofCAFile = host.caFile
        $0.configuration.identityProofAllowsPrivateAddresses = true
        configure(&$0.configuration)
      }) { bench in
        let old = ProxyPhone()
        var new = old
        new.user = ProxyPhone.users[1]
        new.token = ProxyPhone.App.talkAndroid.token
        #expect(try await old.register(at: bench).status == 200)
        try await test(bench, host, old, new)
      }
    }
  }

  private func cloudID(_ host: OthersHost, _ path: String = "") -> [(name: String, value: String)] {
    [("cloudId", "alice@example.com@\(host.name)\(path)")]
  }

  @Test("takes its identifier over when its server vouches for the new key")
  func success() async throws {
    try await withHost { bench, host, old, new in
      #expect(try await new.register(at: bench).status == 409)
      host.reply(key: new.user.publicKey.pem.replacing("\n", with: "\r\n"))
      let answer = try await new.register(at: bench, with: cloudID(host, "/nextcloud"))
      #expect(answer.status == 200 && answer.json == [:])
      let call = try #require(host.seen.first)
      #expect(
        call.path == "/nextcloud/ocs/v2.php/identityproof/key/alice%40example.com?format=json")
      #expect(call.headers[try #require(HTTPField.Name("OCS-APIRequest"))] == "true")
      let kept = try #require(try await bench.devices.lookup([new.identifier]).first)
      #expect(kept.token == new.token && kept.userKey == new.user.publicKey.der)
      #expect(try await old.register(at: bench).status == 409)
      // Nobody is asked who need not be.
      #expect(try await new.register(at: bench, with: cloudID(host)).status == 200)
      #expect(host.seen.count == 1)
    }
  }

  @Test("stays out when its server says anything else")
  func otherAnswers() async throws {
    try await withHost { bench, host, old, new in
      let right = new.user.publicKey.pem
      let replies: [(HTTPResponse.Status, String)] = [
        (.notFound, #"{"ocs":{"data":["User not found"]}}"#), (.ok, ""), (.ok, "{"), (.ok, "[]"),
        (.ok, #"{"ocs":{"data":{"public":""}}}"#), (.ok, #"{"ocs":{"data":{"public":7}}}"#), (.ok, right),
        (.internalServerError, JSON.object(["ocs": ["data": ["public": .string(right)]]]).text),
        (
          .ok,
          JSON.object([
            "ocs": ["data": ["public": .string(right), "x": .string(String(repeating: "x", count: 20_000))]]
          ])
          .text
        ),
      ]
      for (status, body) in replies {
        host.reply(status, body)
        let answer = try await new.register(at: bench, with: cloudID(host))
        #expect(answer.status == 403, "\(body.prefix(50))")
        #expect(answer.message != nil)
      }
      host.reply(key: old.user.publicKey.pem)
      #expect(try await new.register(at: bench, with: cloudID(host)).status == 403)
      let kept = try #require(try await bench.devices.lookup([new.identifier]).first)
      #expect(kept.token == old.token && kept.userKey == old.user.publicKey.der)
    }
  }

  @Test("is not followed to another place, and nobody waits for its server for long")
  func redirectsAndDelays() async throws {
    try await withHost { bench, host, _, new throws in
      host.reply(.found, "", headers: [.location: "/right"])
      #expect(try await new.register(at: bench, with: cloudID(host)).status == 403)
      #expect(host.seen.count == 1)
      var proof = bench.proxy.identityProof
      proof.timeout = .milliseconds(200)
      host.reply {
        try await Task.sleep(for: .seconds(3))
        return Response(status: .ok)
      }
      let start = ContinuousClock.now
      let cloudID = try #require(CloudID("alice@\(host.name)"))
      #expect(await proof.key(of: cloudID) == nil)
      #expect(ContinuousClock.now - start < .seconds(2))
    }
  }

  @Test(
    "is not called at a private address, however it is written, nor without a certificate that is trusted")
  func privateAddresses() async throws {
    try await withHost({ $0.identityProofAllowsPrivateAddresses = false }) { bench, host, _, new throws in
      host.reply(key: new.user.publicKey.pem)
      let port = host.name.split(separator: ":")[1]
      for name in ["localhost", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "10.0.0.1", "169.254.169.254"] {
        let answer = try await new.register(at: bench, with: [("cloudId", "alice@\(name):\(port)")])
        #expect(answer.status == 403, "\(name)")
      }
      #expect(host.seen.isEmpty)
    }
    try await withHost({ $0.identityProofCAFile = nil }) { bench, host, _, new throws in
      host.reply(key: new.user.publicKey.pem)
      #expect(try await new.register(at: bench, with: cloudID(host)).status == 403)
      #expect(host.seen.isEmpty)
    }
  }

  @Test("may not ask for ever, and must name its server properly")
  func limits() async throws {
    try await withHost({ $0.rateLimitOfProofs = RateLimit(calls: 2, seconds: 60) }) {
      bench, host, _, new throws in
      for text in ["alice", "alice@dotless", "alice@\(host.name)/../x"] {
        #expect(try await new.register(at: bench, with: [("cloudId", text)]).status == 400)
      }
      for status in [403, 403, 429] {
        #expect(try await new.register(at: bench, with: cloudID(host)).status == status)
      }
      #expect(host.seen.count == 2)
      #expect(try await new.register(at: bench, with: [("cloudId", "")]).status == 409)
    }
  }
}

extension OthersHost {
  /// Answers as Nextcloud does.
  fileprivate func reply(key pem: String) {
    reply(.ok, JSON.object(["ocs": ["meta": ["status": "ok"], "data": ["public": .string(pem)]]]).text)
  }
}
