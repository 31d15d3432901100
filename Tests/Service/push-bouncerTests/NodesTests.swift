import Foundation
import HTTP
import ProviderSimulator
import Providers
import Sealing
import Synchronization
import TestDatabase
import TestSupport
import Testing

@testable import Demo

/// Tests several nodes on one PostgreSQL database, behind a round-robin balancer.
@Suite(.serialized, .needsPostgreSQL) struct NodesTests {
  /// Runs nodes until `body` returns; each comes back when it has ended, as a supervisor sees to it.
  ///
  /// - Parameters:
  ///   - deadline: of a delivery; what its provider does not take is tried for as long.
  ///   - arguments: what each is started with besides.
  func nodes(
    _ count: Int, of stage: Stage, deadline: String = "1s", arguments: [[String]] = [],
    _ body: @escaping (RoundRobin, Supervisor) async throws -> Void
  ) async throws {
    let robin = RoundRobin()
    let supervisor = Supervisor()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<count {
        group.addTask {
          while !supervisor.isOver {
            try await stage.serve(
              ["--delivery.deadline", deadline, "--log.level", "notice"]
                + (arguments.isEmpty ? [] : arguments[number])
            ) { running, server in
              supervisor.started(number, running)
              robin.add(number, server)
              while running.process.isRunning { try await Task.sleep(for: .milliseconds(10)) }
              robin.remove(number)
            }
          }
        }
      }
      await eventually("all nodes") { (0..<count).allSatisfy { supervisor.running($0) != nil } }
      do {
        try await body(robin, supervisor)
      } catch {
        supervisor.end()
        throw error
      }
      supervisor.end()
      try await group.waitForAll()
    }
  }

  /// Runs nodes on a PostgreSQL server of their own.
  private func cluster(
    _ count: Int, deadline: String = "1s",
    _ body: @escaping (Stage, RoundRobin, Supervisor, PostgreSQLServer) async throws -> Void
  ) async throws {
    try await PostgreSQLServer.test { postgres in
      try await Stage.test(database: postgres.url) { stage in
        try await nodes(count, of: stage, deadline: deadline) { try await body(stage, $0, $1, postgres) }
      }
    }
  }

  @Test func `Nodes share the outbox and send each once`() async throws {
    try await cluster(3) { stage, robin, _, _ in
      let phones = try await robin.call { try await stage.phones(20, at: $0) }
      await stage.faults { $0.outage = true }
      let ledger = Ledger()
      for _ in 0..<30 { ledger.add(try await robin.call { try await $0.mark(phones) }) }
      await stage.faults()
      await stage.expectArrival(of: ledger.now.marks)
      // Only one node at a time has the lease of an entry.
      #expect(stage.arrived().values.allSatisfy { $0 == 1 })
      #expect(ledger.now.marks.count == 600)
    }
  }

  @Test func `Nodes that are killed lose nothing`() async throws {
    try await cluster(3) { stage, robin, supervisor, _ in
      let ledger = Ledger()
      try await load(stage, robin, ledger, until: .seconds(12)) {
        for _ in 0..<6 {
          try await Task.sleep(for: .milliseconds(.random(in: 700...1800)))
          supervisor.running(.random(in: 0..<3))?.send(SIGKILL)
        }
      }
      try await settle(stage, robin, ledger)
    }
  }

  @Test func `A database that is killed and started again loses nothing`() async throws {
    try await cluster(2) { stage, robin, supervisor, postgres in
      let ledger = Ledger()
      try await load(stage, robin, ledger, until: .seconds(10)) {
        for _ in 0..<2 {
          try await Task.sleep(for: .seconds(1))
          try postgres.kill()
          try await Task.sleep(for: .seconds(1))
          try postgres.start()
        }
      }
      for number in 0..<2 {
        let running = try #require(supervisor.running(number))
        await eventually("ready again") {
          (try? await running.call("admin", path: "/readyz").status) == 200
        }
        // It has come through without a restart.
        #expect(running.process.isRunning)
      }
      try await settle(stage, robin, ledger)
    }
  }

  /// Tests that the other node keeps working, and that the node that is cut off promises nothing that it
  /// cannot keep and recovers by itself.
  @Test(.enabled(if: Network.isAvailable, "takes privileges and ip"))
  func `A node that is cut off from its database comes back`() async throws {
    let port = try await freePort()
    let networks = ["127.0.7.1", "127.0.7.2"].map(Network.init)
    let addresses = networks.map(\.address).joined(separator: ",")
    defer { networks[0].mend() }
    try await PostgreSQLServer.test("listen_addresses='\(addresses)'", "port=\(port)") { _ in
      let urls = networks.map { "postgres://postgres@\($0.address):\(port)/postgres?sslmode=disable" }
      try await Stage.test(database: urls[1]) { stage in
        try await nodes(2, of: stage, arguments: urls.map { ["--database.url", $0] }) { robin, supervisor in
          let ledger = Ledger()
          let cutOff = try #require(supervisor.running(0))
          try await load(stage, robin, ledger, until: .seconds(120)) {
            await eventually("promises") { ledger.now.marks.count > 50 }
            try networks[0].cut()
            await eventually("not ready") {
              (try? await cutOff.call("admin", path: "/readyz").status) == 503
            }
            let node = try #require(robin.remove(0))
            let before = ledger.now.marks.count
            await eventually("promises of the other node") { ledger.now.marks.count > before + 50 }
            networks[0].mend()
            await eventually("ready again") {
              (try? await cutOff.call("admin", path: "/readyz").status) == 200
            }
            robin.add(0, node)
            let then = ledger.now.marks.count
            await eventually("promises of both") { ledger.now.marks.count > then + 20 }
          }
          #expect(cutOff.process.isRunning)
          try await settle(stage, robin, ledger)
        }
      }
    }
  }

  @Test func `What one node has reported dead none sends to`() async throws {
    try await cluster(3, deadline: "20s") { stage, robin, _, _ in
      let phones = try await robin.call { try await stage.phones(4, at: $0) }
      for phone in phones {
        stage.simulator.setToken(phone.token, TokenRule(status: phone.kind == .apns ? 410 : 404))
      }
      let reported = try await robin.call { try await $0.mark(phones) }
      #expect(reported.deleted.count == 4)
      for _ in 0..<9 {
        let again = try await robin.call { try await $0.mark(phones) }
        #expect(again.deleted.count == 4 && again.sent == 0)
      }
      #expect(stage.simulator.deliveries(includingRefused: true).count == 4)
    }
  }

  @Test func `Nodes that are restarted one after the other fail no request`() async throws {
    try await cluster(2) { stage, robin, supervisor, _ in
      let ledger = Ledger()
      try await load(stage, robin, ledger, until: .seconds(60)) {
        for number in 0..<2 {
          await eventually("promises") { !ledger.now.marks.isEmpty }
          let running = try #require(supervisor.running(number))
          robin.remove(number)
          await eventually("nothing under way") { robin.calls(at: number) == 0 }
          await running.end()
          await eventually("a new one") {
            supervisor.running(number)?.process.processIdentifier
              != running.process.processIdentifier
          }
          let before = ledger.now.marks.count
          await eventually("promises") { ledger.now.marks.count > before + 20 }
        }
      }
      #expect(ledger.now.refusals == 0)
      try await settle(stage, robin, ledger)
    }
  }

  @Test func `A service moves from SQLite with all its phones`() async throws {
    try await PostgreSQLServer.test { postgres in
      try await Stage.test { stage in
        let phones = try await stage.serveOnce { try await stage.phones(10, at: $0) }
        let copied = try await stage.place.run(
          "copy", "--from", "sqlite:push-bouncer.sqlite", "--to", postgres.url, "--json")
        #expect(copied.status == 0, "\(copied.errors)")
        try await stage.serve("--database.url", postgres.url) { _, server in
          #expect(try await server.mark(phones).sent == 10)
          try await stage.register(Stage.phone(.fcm), at: server)
        }
      }
    }
  }

  /// Registers and notifies while `trouble` lasts and no longer than `limit`. Refusals are counted,
  /// nothing is expected of them.
  ///
  /// - Parameter pause: between two calls of one of six callers.
  func load(
    _ stage: Stage, _ robin: RoundRobin, _ ledger: Ledger, until limit: Duration, pause: Duration = .zero,
    _ trouble: @escaping @Sendable () async throws -> Void
  ) async throws {
    let end = ContinuousClock.now + limit
    let isOver = Over()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<6 {
        group.addTask {
          while !isOver.value, ContinuousClock.now < end {
            do {
              try await robin.call { try await stage.act(ledger, at: $0) }
              if pause > .zero { try await Task.sleep(for: pause) }
            } catch {
              ledger.addRefusal()
              try? await Task.sleep(for: .milliseconds(20))
            }
          }
        }
      }
      group.addTask {
        defer { isOver.set() }
        try await trouble()
      }
      try await group.waitForAll()
    }
  }

  /// Expects that everything promised arrives and every phone is still registered.
  func settle(_ stage: Stage, _ robin: RoundRobin, _ ledger: Ledger) async throws {
    let promised = ledger.now
    #expect(promised.phones.count > 5 && promised.marks.count > 50)
    for some in promised.groups {
      await eventually("an answer") {
        guard let promise = try? await robin.call({ try await $0.mark(some) }) else { return false }
        ledger.add(promise)
        return true
      }
    }
    #expect(ledger.now.deletions == 0)
    await stage.expectArrival(of: ledger.now.marks)
    print(
      "\(promised.phones.count) phones, \(promised.marks.count) notifications promised, "
        + "\(promised.refusals) calls without an answer, "
        + "\(stage.arrived().values.count { $0 > 1 }) sent more than once")
  }
}

extension Stage {
  /// Runs the service for one thing.
  fileprivate func serveOnce<Result: Sendable>(_ body: (ChatServer) async throws -> Result) async throws
    -> Result
  {
    var result: Result?
    try await serve { running, server in
      result = try await body(server)
      await running.end()
    }
    return try #require(result)
  }
}
