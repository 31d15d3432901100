import Foundation
import ProviderSimulator
import Sealing
import Testing
import Wire

@testable import push_bouncer

extension Chaos {
  /// A disk without room: nothing is promised that cannot be kept, and nothing is lost.
  @Suite struct FullDiskTests {
    /// What a file may hold; the log of requests stays below it, the database's does not.
    private static let limit = 65536

    @Test func aFullDiskRefusesForNowAndRecovers() async throws {
      try await Stage.test { stage in
        try await stage.serve("--delivery.deadline", "1s", "--log.level", "notice") { running, server in
          let phones = try await stage.phones(4, at: server)
          #expect(try await server.mark(phones).sent == 4)
          #expect(try await running.call("admin", path: "/readyz").status == 200)

          try await limitFiles(of: running, to: "\(Self.limit)")
          try await eventually("unavailable") {
            let ready = try await running.call("admin", path: "/readyz")
            return ready.status == 503 && ready.json["status"]?.string == "unavailable"
              && ready.json["checks"]?["database"]?["status"]?.string == "failing"
          }
          // Any 4xx is final for a stock server, and so is what it does not understand.
          await refused(503) { try await stage.register(Stage.phone(.fcm), at: server) }
          // Reads go on, and so does what needs no write.
          let through = try await server.mark(phones)
          #expect(through.sent == 4 && through.deleted.isEmpty)

          var faults = Faults()
          (faults.apns.outage, faults.fcm.outage) = (true, true)
          await stage.simulator.setFaults(faults)
          await refused(503) { _ = try await server.mark(phones) }
          // The providers call a phone dead: nothing can be written, so nothing dies.
          await stage.simulator.setFaults(Faults())
          stage.simulator.setToken(phones[0].token, TokenRule(status: 410, reason: "Unregistered"))
          try await eventually("an answer") {
            do {
              return try await server.mark([phones[0]]).deleted.isEmpty
            } catch is ChatServer.Refusal { return false }
          }
          #expect(try await running.call("admin", path: "/healthz").status == 200)

          try await limitFiles(of: running, to: "unlimited")
          stage.simulator.setToken(phones[0].token, nil)
          try await eventually("ready again") {
            try await running.call("admin", path: "/readyz").json["checks"]?["database"]?["status"]?.string
              == "ok"
          }
          try await stage.register(Stage.phone(.fcm), at: server)
          await stage.simulator.setFaults(faults)
          let queued = try await server.mark(phones)
          #expect(queued.deleted.isEmpty)
          await stage.simulator.setFaults(Faults())
          await stage.expectArrival(of: Set(queued.marks))
          running.send(SIGTERM)
          #expect(await running.status() == 0)
        }
      }
    }

    /// From outside, so that the same process meets a full disk and then room.
    private func limitFiles(of running: Running, to size: String) async throws {
      let process = Process()
      process.executableURL = URL(filePath: "/usr/bin/prlimit")
      process.arguments = ["--pid", "\(running.process.processIdentifier)", "--fsize=\(size):unlimited"]
      try process.run()
      await eventually("the limit") { !process.isRunning }
      try #require(process.terminationStatus == 0)
    }

    private func refused(
      _ status: Int, sourceLocation: SourceLocation = #_sourceLocation, _ call: () async throws -> Void
    ) async {
      do {
        try await call()
        Issue.record("it was not refused", sourceLocation: sourceLocation)
      } catch {
        #expect("\(error)".contains(": \(status)"), "\(error)", sourceLocation: sourceLocation)
      }
    }
  }
}
