import Foundation
import HTTP
import ProviderSimulator
import Providers
import Sealing
import TestSupport
import Testing

@testable import Demo

extension Chaos {
  /// Tests a full disk: the service promises nothing that it cannot keep, and loses nothing.
  @Suite struct FullDiskTests {
    @Test(arguments: DiskTrouble.possible) func `A disk that takes nothing refuses for now and recovers`(
      trouble: DiskTrouble
    ) async throws {
      try await Stage.test { stage in
        let folder = stage.place.folder
        // A file system that one command leaves must not keep the folder from going.
        defer { trouble.clean(folder) }
        try await stage.serve(
          "--delivery.deadline", "3s", "--log.level", "notice", "--database.url", trouble.databaseURL,
          through: trouble.launcher(folder)
        ) { running, server in
          let phones = try await stage.phones(4, at: server)
          #expect(try await server.mark(phones).sent == 4)
          #expect(try await running.call("admin", path: "/readyz").status == 200)

          try await trouble.begin(running, folder)
          try await eventually("unavailable") {
            let ready = try await running.call("admin", path: "/readyz")
            return ready.status == 503 && ready.json["status"]?.string == "unavailable"
              && ready.json["checks"]?["database"]?["status"]?.string == "failing"
          }
          // After a 5xx a stock server would have the phone wait for ever.
          async let registration: Void = refused(429) {
            try await stage.register(Stage.phone(.fcm), at: server)
          }
          // Reads go on, and so does what needs no write.
          let through = try await server.mark(phones)
          #expect(through.sent == 4 && through.deleted.isEmpty)

          await stage.faults { $0.outage = true }
          await refused(503) { _ = try await server.mark(phones) }
          await registration
          // The providers call a phone dead: nothing can be written, so nothing dies.
          await stage.faults()
          stage.simulator.setToken(phones[0].token, TokenRule(status: 410, reason: "Unregistered"))
          try await eventually("an answer") {
            do {
              return try await server.mark([phones[0]]).deleted.isEmpty
            } catch is JSONService.Refusal { return false }
          }
          #expect(try await running.call("admin", path: "/healthz").status == 200)

          try await trouble.end(running, folder)
          stage.simulator.setToken(phones[0].token, nil)
          try await eventually("ready again") {
            try await running.check("database")["status"] == "ok"
          }
          try await stage.register(Stage.phone(.fcm), at: server)
          await stage.faults { $0.outage = true }
          let queued = try await server.mark(phones)
          #expect(queued.deleted.isEmpty)
          await stage.faults()
          await stage.expectArrival(of: Set(queued.marks))
          await running.end()
        }
      }
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

/// Ways in which a disk refuses writes while the service runs, and later accepts them again.
enum DiskTrouble: String, CaseIterable, Sendable {
  /// Files may not grow (EFBIG).
  case fileLimit
  /// The file system is full (ENOSPC).
  case full
  /// The file system lets nothing be written (EPERM; a file system that became read-only is the same
  /// to the program, with another number).
  case readOnly

  /// The ways that are possible on this machine: the last two need privileges.
  static var possible: [DiskTrouble] {
    allCases.filter { trouble in
      switch trouble {
      case .fileLimit: return true
      case .full: return succeeds("/usr/bin/unshare", "--mount", "true")
      case .readOnly:
        let probe = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: probe) }
        return FileManager.default.createFile(atPath: probe.path, contents: Data())
          && succeeds("/usr/bin/chattr", "+i", probe.path) && succeeds("/usr/bin/chattr", "-i", probe.path)
      }
    }
  }

  /// What a file may hold; the log stays below it, the database's does not.
  private static let limit = 65536

  private static let mount = "small"

  var databaseURL: String {
    "sqlite:" + (self == .full ? "\(Self.mount)/" : "") + "push-bouncer.sqlite"
  }

  /// What the service is started with, before its own command: a small file system that nobody else sees
  /// and that goes when it does.
  func launcher(_ folder: URL) -> [String] {
    guard self == .full else { return [] }
    let script = """
      mkdir \(Self.mount) && mount -t tmpfs -o size=2m tmpfs \(Self.mount) \
        && cp push-bouncer.sqlite* \(Self.mount)/ && exec "$@"
      """
    return ["/usr/bin/unshare", "--mount", "sh", "-c", script, "sh"]
  }

  /// From outside, so that the same process meets the trouble and then its end.
  func begin(_ running: Running, _ folder: URL) async throws {
    switch self {
    case .fileLimit: try await limitFiles(of: running, to: "\(Self.limit)")
    case .full:
      try Data().write(to: filler(running, folder))
      let handle = try FileHandle(forWritingTo: filler(running, folder))
      while (try? handle.write(contentsOf: Data(count: 4096))) != nil {}
      try handle.close()
    case .readOnly:
      for file in files(folder) { try #require(succeeds("/usr/bin/chattr", "+i", file)) }
    }
  }

  func end(_ running: Running, _ folder: URL) async throws {
    switch self {
    case .fileLimit: try await limitFiles(of: running, to: "unlimited")
    case .full: try FileManager.default.removeItem(at: filler(running, folder))
    case .readOnly: clean(folder)
    }
  }

  /// Lets the folder be removed.
  func clean(_ folder: URL) {
    guard self == .readOnly else { return }
    for file in files(folder) { _ = succeeds("/usr/bin/chattr", "-i", file) }
  }

  private func files(_ folder: URL) -> [String] {
    ["push-bouncer.sqlite", "push-bouncer.sqlite-wal"].map { folder.appending(path: $0).path }
  }

  /// Seen through the service's eyes: the file system is its own.
  private func filler(_ running: Running, _ folder: URL) -> URL {
    URL(filePath: "/proc/\(running.process.processIdentifier)/root\(folder.path)/\(Self.mount)/filler")
  }

  private func limitFiles(of running: Running, to size: String) async throws {
    let pid = "\(running.process.processIdentifier)"
    try #require(succeeds("/usr/bin/prlimit", "--pid", pid, "--fsize=\(size):unlimited"))
  }
}
