import Foundation
import Testing

/// What others can see of the service's memory. It runs as an ordinary user, as it should.
@Suite struct MemoryTests {
  /// Whether an ordinary user may run the program where it lies.
  private static let isPossible =
    getuid() != 0
    || succeeds(
      "/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/test", "-x",
      Workplace.executable.path)

  @Test(.enabled(if: isPossible)) func `Nobody else reads it and a crash leaves no copy`() async throws {
    try await Workplace.test(begun: true) { place in
      let isRoot = getuid() == 0
      if isRoot { try place.giveAway() }
      try await place.serve([], through: isRoot ? Mistake.nobody : []) { running in
        let process = "/proc/\(running.process.processIdentifier)"
        let limits = try String(contentsOfFile: "\(process)/limits", encoding: .utf8)
        let core = try #require(limits.split(separator: "\n").first { $0.hasPrefix("Max core file size") })
        #expect(core.split(separator: " ").dropFirst(4).prefix(2) == ["0", "0"])
        let status = try String(contentsOfFile: "\(process)/status", encoding: .utf8)
        #expect(!status.contains("\nUid:\t0\t"))
        // What may not be dumped is root's to look into, whoever runs it.
        let owner = try FileManager.default.attributesOfItem(atPath: "\(process)/mem")[.ownerAccountID]
        #expect(owner as? Int == 0)
        #expect(try await running.call(path: "/").status == 404)
        #expect(try await running.call("admin", path: "/readyz").status == 200)
        await running.end()
      }
    }
  }
}
