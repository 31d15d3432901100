import Foundation
import HTTP
import Sealing
import Synchronization
import TestDatabase
import TestSupport
import Testing

@testable import push_bouncer

extension NodesTests {
  /// Each node has a key folder of its own. While both take registrations and deliver, one is killed that does not have
  /// the new key yet, then one that does, then the rotation itself.
  @Test func `Nodes take up a new storage key and lose nothing`() async throws {
    try await PostgreSQLServer.test { postgres in
      try await Stage.test(database: postgres.url) { stage in
        let folder = stage.place.folder
        try FileManager.default.copyItem(
          at: folder.appending(path: "Keys"), to: folder.appending(path: "Others"))
        let old = try stage.place.text(of: "Keys/storage.key")
        @Sendable func copyKey() throws {
          // As a copy is put in place that nobody may see in part.
          try stage.place.write("Others/new", stage.place.text(of: "Keys/storage.key"))
          let path = folder.appending(path: "Others").path
          #expect(rename("\(path)/new", "\(path)/storage.key") == 0)
        }
        let arguments = [[], ["--keys.directory", "Others"]]
        try await nodes(2, of: stage, arguments: arguments) { robin, supervisor in
          let ledger = Ledger()
          let logs = Logs()
          @Sendable func killOne(_ number: Int) async throws {
            let running = try #require(supervisor.running(number))
            await running.end(SIGKILL, status: SIGKILL)
            logs.add(running.logged)
            await eventually("a new one") {
              supervisor.running(number)?.process.processIdentifier != running.process.processIdentifier
            }
            let before = ledger.now.marks.count
            await eventually("promises") { ledger.now.marks.count > before + 20 }
          }
          let rotation = ["keys", "rotate-storage", "--silence", "25", "--json"]
          try await load(stage, robin, ledger, until: .seconds(1200), pause: .milliseconds(200)) {
            await eventually("promises") { ledger.now.marks.count > 50 }
            // Of itself it would not end.
            try await stage.place.start(rotation + ["--writes", "6000"]) { running in
              await eventually("a node that waits for its copy") {
                running.logged.contains("waiting until every process has the new key")
              }
              try await killOne(1)
              #expect(!running.logged.contains("seals from now on"))
              try copyKey()
              await eventually("the new key") {
                running.logged.contains("seals from now on")
              }
              try await killOne(0)
              await running.end(SIGKILL, status: SIGKILL)
            }
            try await stage.place.start(rotation + ["--writes", "5"]) { running in
              await eventually("the end of it") { !running.process.isRunning }
              #expect(await running.status() == 0, "\(running.logged)")
              #expect(running.printed?["unreadable"]?.integer == 0)
            }
            try copyKey()
            let before = ledger.now.marks.count
            await eventually("promises") { ledger.now.marks.count > before + 50 }
          }
          for number in 0..<2 { logs.add(supervisor.running(number)?.logged ?? "") }
          #expect(!logs.text.contains("do not open"), "\(logs.text)")
          #expect(!logs.text.contains("cannot be followed"), "\(logs.text)")
          try await settle(stage, robin, ledger)
        }
        for file in ["Keys", "Others"] {
          let key = try #require(StorageKeyFile(try stage.place.text(of: "\(file)/storage.key")))
          #expect(key.ids.count == 1 && key.ids != StorageKeyFile(old)?.ids)
        }
        #expect(try await stage.place.run("server", "list").status == 0)
        // The old one opens nothing any more.
        try stage.place.write("Keys/storage.key", old)
        let refused = try await stage.place.run("server", "list")
        #expect(refused.status == 1 && refused.errors.contains("another storage.key"), "\(refused.errors)")
      }
    }
  }
}

/// The log lines of processes that have ended.
private final class Logs: Sendable {
  private let parts = Mutex<[String]>([])
  var text: String { parts.withLock { $0.joined() } }
  func add(_ text: String) { parts.withLock { $0.append(text) } }
}
