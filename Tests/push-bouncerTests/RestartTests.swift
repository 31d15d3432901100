import AsyncHTTPClient
import Foundation
import NIOCore
import ProviderSimulator
import Synchronization
import Testing

@testable import push_bouncer

extension Chaos {
  /// Behind a socket that systemd holds, nobody notices a restart.
  @Suite struct RestartTests {
    /// `CHAOS_RESTARTS` makes it longer.
    static let restarts = Int(ProcessInfo.processInfo.environment["CHAOS_RESTARTS"] ?? "") ?? 10

    @Test func restartsLoseNothing() async throws {
      let held = try HeldSocket()
      let load = Load()
      try await Stage.test { stage in
        let client = Self.stockClient()
        var sending: Task<Void, Never>?
        for round in 0...Self.restarts {
          try await stage.serve(
            ["--log.level", "notice"], through: HeldSocket.launcher(), input: held.handle
          ) { running, server in
            #expect(running.port(of: "public") == held.port)
            if round == 0 {
              let phones = try await stage.phones(8, at: server)
              let stock = server.through(client)
              sending = Task { await load.run(stock, phones) }
            }
            // Some before the process ends, so that it ends in the middle of it.
            let before = load.answered
            await eventually("notifications") { load.answered > before + 30 || !load.failures.isEmpty }
            if round == Self.restarts { load.end() }
            running.send(SIGTERM)
            #expect(await running.status() == 0, "\(running.logged.suffix(9000))")
            #expect(!running.logged.contains(#""level":"error""#))
          }
        }
        // What waits in the kernel for a process that does not come.
        try await stage.serve([], through: HeldSocket.launcher(), input: held.handle) { _, _ in
          await sending?.value
        }
        try await client.shutdown()
        #expect(load.failures.isEmpty)
        #expect(load.answered == load.marks.count)
        print("\(Self.restarts) restarts: \(load.answered) notifications answered 200")
        await stage.expectArrival(of: load.marks)
        let arrived = stage.arrived()
        #expect(load.marks.allSatisfy { arrived[$0] == 1 })
      }
    }

    /// A stock server's: a connection for each request, and no second try.
    private static func stockClient() -> HTTPClient {
      var configuration = HTTPClient.Configuration()
      configuration.connectionPool.retryConnectionEstablishment = false
      configuration.maximumUsesPerConnection = 1
      configuration.timeout.connect = .seconds(15)
      return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }
  }

  /// Chat servers that send one notification after the other.
  private final class Load: Sendable {
    private struct State {
      var isEnding = false
      var answered = 0
      var marks: Set<String> = []
      var failures: [String] = []
    }

    private let state = Mutex(State())

    var answered: Int { state.withLock { $0.answered } }
    var marks: Set<String> { state.withLock { $0.marks } }
    var failures: [String] { state.withLock { $0.failures } }

    func end() { state.withLock { $0.isEnding = true } }

    func run(_ server: ChatServer, _ phones: [VirtualPhone]) async {
      await withTaskGroup(of: Void.self) { group in
        for phone in phones {
          group.addTask {
            while !self.state.withLock({ $0.isEnding }) {
              do {
                let promise = try await server.mark([phone])
                self.state.withLock {
                  $0.answered += 1
                  $0.marks.formUnion(promise.marks)
                }
              } catch {
                return self.state.withLock { $0.failures.append("\(error)") }
              }
            }
          }
        }
      }
    }
  }
}

extension ChatServer {
  /// The same, by other connections.
  fileprivate func through(_ client: HTTPClient) -> ChatServer {
    let address = bouncer.url.replacing("/api/v1/remotes", with: "")
    return ChatServer(bouncer: address, id: id, key: key, realm: realm, client: client)
  }
}
