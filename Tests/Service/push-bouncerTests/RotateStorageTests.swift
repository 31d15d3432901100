import Foundation
import HTTP
import Sealing
import TestSupport
import Testing

@testable import push_bouncer

extension Chaos {
  /// `keys rotate-storage` beside a service that registers and sends.
  @Suite struct RotateStorageTests {
    @Test func `A new storage key takes the place of the old while the service runs`() async throws {
      try await Stage.test { stage in
        let old = try stage.place.text(of: "Keys/storage.key")
        func ids() throws -> Int {
          StorageKeyFile(try stage.place.text(of: "Keys/storage.key"))?.ids.count ?? 0
        }
        try await stage.serve("--log.level", "notice") { running, server in
          var phones = try await stage.phones(6, at: server)
          func notify() async throws {
            phones += try await stage.phones(2, at: server)
            let promise = try await server.mark(phones)
            #expect(promise.deleted.isEmpty)
            await stage.expectArrival(of: Set(promise.marks))
          }
          try await notify()
          try await stage.place.start(["keys", "rotate-storage"]) { rotation in
            await eventually("two keys") { (try? ids()) == 2 }
            rotation.send(SIGKILL)
            #expect(await rotation.status() == SIGKILL)
          }
          #expect(try ids() == 2)
          let doctor = try await stage.place.run("doctor")
          #expect(doctor.output.contains("keys rotate-storage"), "\(doctor.output)")
          try await notify()
          try await stage.place.start(
            ["keys", "rotate-storage", "--silence", "25", "--writes", "5", "--json"]
          ) { rotation in
            let end = ContinuousClock.now + longestWait
            while rotation.process.isRunning, .now < end {
              try await notify()
              try await Task.sleep(for: .milliseconds(500))
            }
            #expect(await rotation.status() == 0, "\(rotation.logged)")
            // Housekeeping seals anew as well: how much was left to do nobody knows.
            #expect(rotation.printed?["resealed"]?.integer != nil)
            #expect(rotation.printed?["unreadable"]?.integer == 0)
          }
          #expect(try ids() == 1)
          try await notify()
          await running.end()
          #expect(!running.logged.contains("do not open"), "\(running.logged)")
        }
        let new = try stage.place.text(of: "Keys/storage.key")
        #expect(new != old)
        try await stage.serve { _, server in
          let phones = try await stage.phones(1, at: server)
          let promise = try await server.mark(phones)
          await stage.expectArrival(of: Set(promise.marks))
        }
        try stage.place.write("Keys/storage.key", old)
        let refused = try await stage.place.run("server", "list")
        #expect(refused.status == 1)
        #expect(refused.errors.contains("another storage.key"))
      }
    }
  }
}
