import AsyncHTTPClient
import Foundation
import HTTP
import Providers
import Registrations
import SQL
import Sealing
import TestDatabase
import TestSupport
import Testing

@testable import Demo

extension Chaos {
  /// `keys rotate-storage` with the service stopped.
  @Suite struct RotateStorageTests {
    /// A stage on an engine.
    private func test(_ engine: DatabaseEngine, _ body: (Stage, any Database) async throws -> Void)
      async throws
    {
      guard engine == .postgreSQL else {
        return try await Stage.test { stage in
          let path = stage.place.folder.appending(path: "push-bouncer.sqlite").path
          let database = try await openDatabase(url: DatabaseURL("sqlite:\(path)"))
          try await body(stage, database)
          await database.close()
        }
      }
      let server = try await TestDatabase(.postgreSQL, migrated: false)
      try await Stage.test(database: server.setting) { try await body($0, server.database) }
    }

    @Test(arguments: DatabaseEngine.available)
    func `Killed again and again, it comes to its end, and nobody starts before`(_ engine: DatabaseEngine)
      async throws
    {
      try await test(engine) { stage, database in
        let old = try stage.place.text(of: "Keys/storage.key")
        var phones: [VirtualPhone] = []
        try await stage.serve { running, server in
          phones = try await stage.phones(6, at: server)
          await running.end()
        }
        let key = StorageKey(try #require(StorageKeyFile(old)))
        let realm = try await database.query(Statement("SELECT id FROM remote_realms"))[0].int64("id")
        let store = RegistrationStore(database: database, storageKey: key, now: { Date() })
        for number in 0..<3000 {
          try await store.register(
            try PushToken("token \(number)", kind: .fcm), iosAppID: nil, realm: realm, bouncerKey: "key")
        }

        let command = ["keys", "rotate-storage", "--silence", "0", "--json"]
        var (kills, refusals) = (0, 0)
        for delay in 1... {
          var isOver = false
          try await stage.place.start(command) { rotation in
            try await Task.sleep(for: .milliseconds(15 * delay))
            rotation.send(SIGKILL)
            let status = await rotation.status()
            isOver = status == 0
            #expect(isOver || status == SIGKILL, "\(rotation.logged)")
            #expect(!isOver || rotation.printed?["unreadable"]?.integer == 0)
          }
          if isOver { break }
          kills += 1
          let list = try await stage.place.run("server", "list")
          guard list.status != 0 else { continue }
          refusals += 1
          for command in [
            ["server", "list"], ["serve", "--http.port", "0", "--admin.port", "0"], ["doctor"],
          ] {
            let result = try await stage.place.run(command)
            #expect(result.status == 1)
            let text = result.output + result.errors
            #expect(text.contains("run push-bouncer keys rotate-storage"), "\(text)")
          }
        }
        print("\(engine): killed \(kills) times, \(refusals) of them on the way")
        #expect(refusals > 0)

        let keys = stage.place.folder.appending(path: "Keys").path
        #expect(try !FileManager.default.contentsOfDirectory(atPath: keys).contains("storage.key.new"))
        let new = try stage.place.text(of: "Keys/storage.key")
        let opened = RegistrationStore(
          database: database, storageKey: StorageKey(try #require(StorageKeyFile(new))), now: { Date() })
        let ids = try (0..<3000).map { try PushToken("token \($0)", kind: .fcm).id }
        #expect(try await opened.lookup(realm: realm, tokenIDs: ids).found.count == 3000)
        try await stage.serve { running, server in
          let promise = try await server.mark(phones)
          #expect(promise.deleted.isEmpty)
          await stage.expectArrival(of: Set(promise.marks))
          #expect(!running.logged.contains("do not open"), "\(running.logged)")
        }
        try stage.place.write("Keys/storage.key", old)
        let refused = try await stage.place.run("server", "list")
        #expect(refused.status == 1 && refused.errors.contains("another storage.key"), "\(refused.errors)")
      }
    }

    @Test func `It waits for the service's end, and calls wait at the held socket for its own`() async throws
    {
      let held = try HeldSocket()
      try await Stage.test { stage in
        try await HTTPClient.withHTTPClient(configuration: RestartTests.stockClient) { client in
          func serve(_ test: (Running, ChatServer) async throws -> Void) async throws {
            try await stage.serve(
              ["--log.level", "notice"], through: HeldSocket.launcher(), input: held.handle
            ) {
              try await test($0, $1.through(client))
            }
          }
          var call: Task<ChatServer.Promise, any Error>?
          try await serve { running, server in
            let phones = try await stage.phones(4, at: server)
            let early = try await stage.place.run("keys", "rotate-storage", "--wait", "0")
            #expect(early.status == 1 && early.errors.contains("stop every node"), "\(early.errors)")
            #expect(try await server.mark(phones).deleted.isEmpty)
            try await stage.place.start(["keys", "rotate-storage"]) { rotation in
              await eventually("its wait") { rotation.logged.contains("for it to end") }
              let promise = try await server.mark(phones)
              #expect(promise.deleted.isEmpty)
              await running.end()
              call = Task { try await server.mark(phones) }
              #expect(await rotation.status() == 0, "\(rotation.logged)")
            }
          }
          try await serve { _, _ in
            let promise = try await #require(call).value
            #expect(promise.deleted.isEmpty)
            await stage.expectArrival(of: Set(promise.marks))
          }
        }
      }
    }
  }
}
