import Foundation
import NIOCore
import ProviderSimulator
import Synchronization
import TestSupport
import Testing

@testable import Demo

extension Chaos {
  /// Tests SIGTERM: requests under way are answered, and promised notifications are kept.
  @Suite(.stage) struct DrainTests {
    private let stage = Fixture<Stage>.current

    @Test func `What is under way is answered`() async throws {
      try await stage.serve("--delivery.deadline", "20s") { running, server in
        let phones = try await stage.phones(6, at: server)
        await stage.faults { $0.latencyMilliseconds = 5000 }
        try await withThrowingTaskGroup(of: ChatServer.Promise.self) { group in
          for phone in phones { group.addTask { try await server.mark([phone]) } }
          // It has reached the providers, which take their time to answer.
          try await stage.simulator.waitForDeliveries(count: 2)
          running.send(SIGTERM)
          await eventually("new connections refused") { !running.accepts }
          #expect(running.process.isRunning)
          for try await promise in group { #expect(promise.sent == 1 && promise.deleted.isEmpty) }
        }
        #expect(await running.status() == 0)
      }
    }

    @Test func `What no provider answers is kept`() async throws {
      var promised: Set<String> = []
      try await stage.serve("--delivery.deadline", "3s") { running, server in
        let phones = try await stage.phones(6, at: server)
        hold(phones, at: stage.simulator)
        try await withThrowingTaskGroup(of: ChatServer.Promise.self) { group in
          for phone in phones { group.addTask { try await server.mark([phone]) } }
          try await stage.simulator.waitForDeliveries(count: 2)
          running.send(SIGTERM)
          for try await promise in group {
            #expect(promise.sent == 0 && promise.deleted.isEmpty)
            promised.formUnion(promise.marks)
          }
        }
        #expect(await running.status() == 0)
      }
      #expect(promised.count == 6)
      // The simulator counts what it has taken without an answer; from here on only what comes anew.
      stage.simulator.reset()
      // What was under way is taken over when nobody can answer it any more: a minute and a quarter later.
      try await stage.serve("--clock-offset", "80s") { _, _ in await stage.expectArrival(of: promised) }
    }

    /// A connection that comes at the very moment at which the listener ends must not end the process.
    @Test func `Connections that come meanwhile do no harm`() async throws {
      let times = Int(ProcessInfo.processInfo.environment["CHAOS_TERMS"] ?? "") ?? 5
      try await Stage.test { stage in
        for _ in 0..<times {
          try await stage.place.serve("--log.level", "notice") { running in
            let port = try #require(running.port(of: "public"))
            let connections = Connections()
            await withTaskGroup(of: Void.self) { group in
              for _ in 0..<4 {
                group.addTask { await connections.hammer(port) }
              }
              await eventually("many connections") { connections.count > 200 }
              await running.end()
            }
          }
        }
      }
    }

    /// Makes the providers accept pushes for these phones without an answer.
    private func hold(_ phones: [VirtualPhone], at simulator: SimulatedProviders) {
      for phone in phones {
        simulator.setToken(phone.token, TokenRule(status: 200, delayMilliseconds: 60_000))
      }
    }
  }
}

/// Connections that come as fast as they can.
private final class Connections: Sendable {
  private let made = Mutex(0)

  var count: Int { made.withLock { $0 } }

  /// Connects until it is refused.
  func hammer(_ port: Int) async {
    await withCheckedContinuation { done in
      Thread.detachNewThread {
        while connect(to: port) { self.made.withLock { $0 += 1 } }
        done.resume()
      }
    }
  }
}

extension Running {
  /// Whether the public listener takes a connection.
  var accepts: Bool { connect(to: port(of: "public") ?? 0) }
}

/// Connects and closes.
private func connect(to port: Int) -> Bool {
  let socket = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
  defer { close(socket) }
  let address = try? SocketAddress(ipAddress: "127.0.0.1", port: port)
  return address?.withSockAddr { connect(socket, $0, socklen_t($1)) == 0 } == true
}
