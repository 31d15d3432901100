import AsyncHTTPClient
import Foundation
import HTTP
import NIOCore
import NIOPosix
import ProviderSimulator
import Sealing
import TestSupport
import Testing

@testable import Demo

@Suite(.serialized, .timeLimit(.minutes(10))) struct ShutdownTests {
  /// Runs a test with a client that has sent half a request and sends no more.
  private func withStalledClient(of running: Running, _ test: () async throws -> Void) async throws {
    let port = try #require(running.port(of: "public"))
    let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
      .connect(host: "127.0.0.1", port: port).get()
    let half = "POST /api/v1/remotes/server/register HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf"
    try await channel.writeAndFlush(ByteBuffer(string: half))
    // Another connection's answer: the first has been taken by then, for they are taken in turn.
    _ = try await running.call(path: "/")
    try await test()
    try? await channel.close()
  }

  private func waitUntilDraining(_ running: Running) async {
    await eventually("draining") {
      let answer = try? await running.call("admin", path: "/readyz")
      return answer?.json["checks"]?["service"]?["status"] == "draining"
    }
  }

  @Test func `A client that never ends does not hold it`() async throws {
    try await Workplace.test { place in
      try await place.serve("--delivery.deadline", "500ms") { running in
        try await withStalledClient(of: running) {
          let start = ContinuousClock.now
          running.send(SIGTERM)
          #expect(await running.status() == 0)
          // Less than a client has for its request.
          #expect(ContinuousClock.now - start < .seconds(20))
          #expect(!running.logged.contains(#""level":"error""#))
        }
      }
    }
  }

  @Test func `A second signal ends it at once`() async throws {
    try await Workplace.test { place in
      try await place.serve("--delivery.deadline", "10m") { running in
        try await withStalledClient(of: running) {
          running.send(SIGTERM)
          await waitUntilDraining(running)
          running.send(SIGINT)
          #expect(await running.status() == 1)
        }
      }
    }
  }

  @Test func `What has been taken is answered first`() async throws {
    try await Workplace.test(begun: true) { place in
      let simulator = try await SimulatedProviders.start()
      try simulator.writeKeys(to: place.folder.appending(path: "Keys"))
      let key = try #require(try await place.run("keys", "generate", "--json").json["public_key"]?.string)
      let added = try await place.run("server", "add", "--hostname", "chat.example.org", "--json").json
      try await place.serve(
        "--apns.endpoint", simulator.apnsEndpoint, "--fcm.endpoint", simulator.fcmEndpoint,
        "--providers.ca_file", "Keys/ca.pem"
      ) { running in
        let server = ChatServer(
          bouncer: running.url("public"), id: added["org_id"]?.string ?? "",
          key: added["org_key"]?.string ?? "",
          realm: UUID().uuidString.lowercased(), client: .shared)
        _ = try await server.uploadRealm(hostname: "chat.example.org")
        let phone = VirtualPhone(.apns, appID: "org.example.chat")
        let sealed = try #require(phone.sealedRegistration(to: key, at: Date()))
        _ = try await server.register(tokenID: phone.tokenID, sealed: sealed, bouncerKey: key)

        simulator.setToken(phone.token, TokenRule(status: 200, delayMilliseconds: 2000))
        async let answer = server.notify([phone], ["type": "test"])
        await eventually("the push at Apple's") { simulator.counts.connections > 0 }
        running.send(SIGTERM)
        await waitUntilDraining(running)
        #expect(try await answer["apple_successfully_sent_count"] == 1)
        #expect(await running.status() == 0)
      }
      #expect(simulator.counts.apns == 1)
      await simulator.stop()
    }
  }
}
