import AsyncHTTPClient
import Foundation
import NIOCore
import ProviderSimulator
import Providers
import Sealing
import TestSupport
import Testing

@testable import Demo

extension Chaos {
  /// Tests that no client notices a restart behind a socket that systemd holds.
  @Suite struct RestartTests {
    /// `CHAOS_RESTARTS` makes it longer.
    static let restarts = Int(ProcessInfo.processInfo.environment["CHAOS_RESTARTS"] ?? "") ?? 10

    @Test func `Restarts lose nothing`() async throws {
      let held = try HeldSocket()
      try await Stage.test { stage in
        func serve(_ test: (Running, ChatServer) async throws -> Void) async throws {
          try await stage.serve(
            ["--log.level", "notice"], through: HeldSocket.launcher(), input: held.handle
          ) { running, server in
            #expect(running.port(of: "public") == held.port)
            try await test(running, server)
            await running.end()
            #expect(!running.logged.contains(#""level":"error""#))
          }
        }
        let record = try await HTTPClient.withHTTPClient(configuration: Self.stockClient) { client in
          var server: ChatServer?
          try await serve { server = $1.through(client) }
          let stock = StockServer(stage, try #require(server))
          try await serve { _, _ in
            for _ in 0..<8 { await stock.register(Stage.phone(.random() ? .apns : .fcm)) }
          }

          let (restarts, areOver) = AsyncStream.makeStream(of: Never.self)
          let streaming = Task {
            try await stock.stream(every: .milliseconds(10)) {
              defer { areOver.finish() }
              for _ in 0..<Self.restarts {
                try await serve { _, _ in
                  // Some before the process ends, so that it ends in the middle of it.
                  let before = stock.now.promised.count
                  await eventually("notifications") {
                    stock.now.promised.count > before + 30 || !stock.now.lost.isEmpty
                  }
                }
              }
            }
          }
          for await _ in restarts {}
          // Whoever has come in between waits in the kernel until there is a process again.
          try await serve { _, _ in try await streaming.value }
          return stock.now
        }

        // Had the machine no time to start it, it was away for longer than anybody waits.
        if record.longest < .seconds(15) { #expect(record.lost == [] && record.stranded == []) }
        #expect(record.errors == 0 && record.forgotten == 0)
        print(
          """
          \(Self.restarts) restarts: \(record.promised.count) notifications and \(record.phones.count) \
          registrations answered 200, the slowest in \(record.longest)
          """)
        await stage.expectArrival(of: record.promised)
        let arrived = stage.arrived()
        #expect(record.promised.allSatisfy { arrived[$0] == 1 })
      }
    }

    /// A stock server's calls: a connection for each request, and no retry.
    static var stockClient: HTTPClient.Configuration {
      var configuration = HTTPClient.Configuration()
      configuration.connectionPool.retryConnectionEstablishment = false
      configuration.maximumUsesPerConnection = 1
      configuration.timeout.connect = .seconds(15)
      return configuration
    }
  }
}

extension ChatServer {
  /// The same, by other connections.
  func through(_ client: HTTPClient) -> ChatServer {
    let address = bouncer.url.replacing("/api/v1/remotes", with: "")
    return ChatServer(bouncer: address, id: id, key: key, realm: realm, client: client)
  }
}
