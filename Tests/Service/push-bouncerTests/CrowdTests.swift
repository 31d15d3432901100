import Foundation
import Providers
import Sealing
import TestSupport
import Testing

@testable import Demo
@testable import Platform

extension Chaos {
  /// More connections than the process could ever have.
  @Suite struct CrowdTests {
    struct Case: Sendable, CustomTestStringConvertible {
      let descriptors: Int
      let habit: Crowd.Habit

      var testDescription: String { "\(descriptors) descriptors, \(habit.rawValue)" }
    }

    /// CROWD_SECONDS sets how long strangers keep connecting. With it, the largest case admits all of them.
    private static let wanted = Int(ProcessInfo.processInfo.environment["CROWD_SECONDS"] ?? "")
    private static let seconds = wanted ?? 1

    private static let cases = [256, 1024, 4096].flatMap { descriptors in
      Crowd.Habit.allCases.map { Case(descriptors: descriptors, habit: $0) }
    }.filter { wanted != nil || $0.descriptors < 4096 || $0.habit == .slow }

    @Test(arguments: cases) func `Ten times as many as allowed stop nobody`(_ one: Case) async throws {
      let allowed = DescriptorLimit(one.descriptors).connections(4096)
      let room = DescriptorLimit.raised().descriptors
      // A machine that lets the tests have fewer can try only the smaller ones.
      let held = one.descriptors + 600
      guard room > held + 500 else { return }
      try await Stage.test { stage in
        try await stage.serve(
          ["--log.level", "notice"], isSecure: one.habit == .halfOpen,
          through: ["/bin/sh", "-c", #"ulimit -n \#(one.descriptors); exec "$0" "$@""#]
        ) { running, server in
          // A phone of Google's has a pace of its own, which is less than what is sent here.
          let phones = try await stage.phones(4, at: server).filter { $0.kind == .apns }
          let port = try #require(running.port(of: "public"))
          let crowd = Crowd(port: port, habit: one.habit, held: held)
          async let coming: Void = crowd.come(10 * allowed, for: .seconds(Self.seconds))
          let marks = try await marks(running, server, phones)
          await crowd.end()
          try await coming
          try await expectRoom(allowed, running) { try await crowd.stay(one.descriptors + 500) }
          await stage.expectArrival(of: Set(marks))
          #expect(running.process.isRunning)
          await crowd.leave()
          try await eventually("full service") {
            try await withThrowingTaskGroup(of: Bool.self) { tasks in
              for _ in 0..<20 {
                tasks.addTask { (try? await server.mark(phones).sent) == Int64(phones.count) }
              }
              return try await tasks.allSatisfy(\.self)
            }
          }
          await running.end()
        }
      }
    }

    /// Tests that the process keeps to its limit of connections when more clients stay than it could hold,
    /// and that the operator's listener still accepts connections.
    private func expectRoom(
      _ allowed: Int, _ running: Running, whenThere come: () async throws -> Void
    ) async throws {
      var count = 0
      try await eventually("the crowd is there") {
        try await come()
        count = try await openConnections(running)
        return count >= min(allowed / 2, 100)
      }
      // Some may be on their way out.
      #expect(count <= allowed + 40)
    }

    /// The status on a new connection, because an existing one needs no new descriptor; 0 without an answer.
    private func openConnections(_ running: Running) async throws -> Int {
      let connection = try await RawConnection(port: try #require(running.port(of: "admin")))
      try await connection.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
      let giveUp = Task {
        try await Task.sleep(for: .seconds(30))
        await connection.close()
      }
      defer { giveUp.cancel() }
      let gauge = #"push_bouncer_http_connections{listener="public"} "#
      return try await connection.rest().split(separator: "\n").first { $0.hasPrefix(gauge) }
        .flatMap { Int($0.dropFirst(gauge.count)) } ?? 0
    }

    /// Sends notifications, and asks for the service's health, while the crowd comes.
    private func marks(
      _ running: Running, _ server: ChatServer, _ phones: [VirtualPhone]
    ) async throws -> [String] {
      var marks: [String] = []
      var successes = 0
      let end = ContinuousClock.now + .seconds(Self.seconds)
      var attempts = 0
      repeat {
        attempts += 1
        #expect(try await running.call("admin", path: "/healthz").status == 200)
        // A connection that lies idle between two calls may be closed in favour of others, which a new one mends.
        guard let promise = try? await server.mark(phones) else { continue }
        marks += promise.marks
        successes += 1
      } while attempts < 20 || ContinuousClock.now < end
      #expect(successes > attempts / 2, "\(successes) of \(attempts) calls were answered")
      return marks
    }
  }
}
