import Foundation
import HTTP
import TestSupport
import Testing

@testable import Demo

/// Tests that the service waits for nobody who reads its log.
@Suite(.serialized) struct UnreadLogTests {
  /// Passes the log on until there is a file `unread`.
  ///
  /// - Parameter then: what it does afterwards.
  private static func reader(then: String) -> [String] {
    // The end of a process is noticed by a descriptor that all it has started share.
    let script = #"""
      exec "$@" 2> >(
        for number in {3..50}; do eval "exec $number>&-"; done
        while [ ! -e unread ] && IFS= read -r line; do echo "$line" >&2; done
      """#
    return ["/bin/bash", "-c", "\(script)\n\(then))", "reader"]
  }

  /// Reads nothing while that file is there.
  private static let pausing = reader(then: "while [ -e unread ]; do sleep 0.1; done; exec cat >&2")

  @Test(.stage) func `A log that nobody reads holds up nobody`() async throws {
    let stage = Fixture<Stage>.current
    try await stage.serve("--log.level", "debug", through: Self.pausing) { running, server in
      let phones = try await stage.phones(10, at: server)
      try stage.place.write("unread", "")
      var promised: Set<String> = []
      // Each has several lines, so that all are far more than a pipe takes.
      for _ in 0..<60 { promised.formUnion(try await server.mark(phones).marks) }
      await stage.expectArrival(of: promised)
      #expect(try await running.call("admin", path: "/healthz").status == 200)
      try await eventually("a finding") { try await running.check("log")["status"]?.string == "failing" }
      try FileManager.default.removeItem(at: stage.place.folder.appending(path: "unread"))
      try await eventually("no finding") { try await running.check("log") == .null }
      #expect(try await running.metric("push_bouncer_log_lines_dropped_total") == 0)
    }
  }

  @Test(.stage) func `It ends although nobody reads that`() async throws {
    let stage = Fixture<Stage>.current
    try await stage.serve("--log.level", "debug", through: Self.pausing) { running, server in
      let phones = try await stage.phones(2, at: server)
      try stage.place.write("unread", "")
      for _ in 0..<300 { _ = try await server.mark(phones) }
      await running.end()
    }
  }

  @Test(.stage) func `It goes on when the reader has gone`() async throws {
    let stage = Fixture<Stage>.current
    try await stage.serve("--log.level", "debug", through: Self.reader(then: "exit")) { running, server in
      let phones = try await stage.phones(2, at: server)
      try stage.place.write("unread", "")
      var promised: Set<String> = []
      try await eventually("dropped lines") {
        promised.formUnion(try await server.mark(phones).marks)
        return try await running.metric("push_bouncer_log_lines_dropped_total") ?? 0 > 10
      }
      await stage.expectArrival(of: promised)
      #expect(try await running.check("log")["status"]?.string == "failing")
    }
  }
}
