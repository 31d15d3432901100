import AsyncHTTPClient
import Foundation
import HTTP
import ProviderSimulator
import SQL
import Sealing
import Testing

@testable import Demo

/// What happens to phones, servers and proxies in the course of time: each ends with pushes flowing.
@Suite struct NextcloudLifeTests {
  private static let backendToken = "host-application-token"
  private static let realm = "e502dde1-74fb-44b4-9b3f-b1b2f8c1c5a1"

  /// A server and a proxy, each a process with a database of its own.
  private struct World {
    let stage: Stage
    let proxy: Running
    let server: Running

    func host() -> HostApplication {
      HostApplication(
        service: server.url("public"), token: backendToken, realm: realm, client: HTTPClient.shared)
    }

    /// A user with so many app passwords.
    func user(_ id: Int64, _ name: String, passwords: Int = 1) async throws -> [String] {
      try await host().putRealm(name: "Example", url: "https://cloud.example.org")
      _ = try await host().putUser(id, email: "\(name)@example.org")
      var all: [String] = []
      for _ in 0..<passwords { all.append(try await host().addAppPassword(id, name: "Talk")) }
      return all
    }

    func phone(_ name: String, _ password: String, besides other: NextcloudPhone? = nil) -> NextcloudPhone {
      NextcloudPhone(
        server: server.url("public"), login: (name, password), proxy: proxy.url("public"), besides: other,
        client: HTTPClient.shared)
    }

    /// Sends a user a message; what its proxies have made of it.
    func notify(_ id: Int64, _ text: String) async throws -> JSON {
      try await host().notify(
        id,
        parts: [
          "nextcloud": ["nid": 1, "app": "spreed", "subject": .string(text), "type": "chat", "id": "x"]
        ]
      )["nextcloud"] ?? .null
    }

    /// What a phone has been able to read.
    func texts(_ phone: NextcloudPhone) -> [String] {
      stage.simulator.deliveries().filter { $0.token == phone.token.lowercased() }.compactMap { delivery in
        (try? JSON.parse(Array(delivery.payload))).flatMap(phone.open)?["subject"]?.string
      }
    }
  }

  private func test(_ body: (World, Workplace) async throws -> Void) async throws {
    try await Stage.test { stage in
      try await Workplace.test { place in
        try await proxy(stage) { proxy in
          try await server(place) { server in
            try await body(World(stage: stage, proxy: proxy, server: server), place)
          }
        }
      }
    }
  }

  private func proxy(_ stage: Stage, port: Int = 0, _ body: (Running) async throws -> Void) async throws {
    try await stage.serve(["--http.port", "\(port)", "--nextcloud.enabled", "true"]) { running, _ in
      try await body(running)
    }
  }

  private func server(
    _ place: Workplace, port: Int = 0, _ body: (Running) async throws -> Void
  ) async throws {
    try await place.serve(
      [
        "--http.port", "\(port)",
        "--backend.token", Self.backendToken, "--nextcloud.url", "https://cloud.example.org",
        "--nextcloud.enabled", "true", "--nextcloud.allow_local_proxies", "true",
        "--http.rate_limit.per_address", "0",
        "--server.rate_limit.per_user", "0",
      ], test: body)
  }

  @Test func `A proxy that is the same program is called, not asked like a stranger's`() async throws {
    try await Stage.test { stage in
      // One request a minute from an address is what a stranger has.
      try await stage.serve([
        "--backend.token", Self.backendToken, "--nextcloud.enabled", "true",
        "--nextcloud.allow_local_proxies", "true", "--nextcloud.rate_limit.per_address", "1/60s",
      ]) { running, _ in
        let world = World(stage: stage, proxy: running, server: running)
        var phone = world.phone("alice", try #require(try await world.user(10, "alice").first))
        try await phone.register()
        for text in ["first", "second", "third"] {
          guard case .array(let proxies)? = try await world.notify(10, text)["proxies"] else {
            Issue.record("no proxy was called")
            return
          }
          #expect(proxies.count == 1)
          #expect(proxies.first?["status"] == 200)
          #expect(proxies.first?["sent"] == 1)
        }
        #expect(world.texts(phone).sorted() == ["first", "second", "third"])
      }
    }
  }

  @Test(arguments: [[], ["--nextcloud.proxies_ca_file", "Keys/ca.pem"]])
  func `A proxy with a certificate of the operator's own is reached where that is trusted`(
    _ trust: [String]
  ) async throws {
    try await Workplace.test { place in
      // No proxy, but somebody who can say so, behind a certificate that the system does not know.
      var configuration = SimulatedProviders.Configuration()
      configuration.keysDirectory = place.folder.appending(path: "Keys").path
      let simulator = try await SimulatedProviders.start(configuration)
      let settings = [
        "--backend.token", Self.backendToken, "--nextcloud.enabled", "true",
        "--nextcloud.allow_local_proxies", "true",
      ]
      try await place.serve(settings + trust) { server in
        let host = HostApplication(
          service: server.url("public"), token: Self.backendToken, realm: Self.realm,
          client: HTTPClient.shared)
        try await host.putRealm(name: "Example", url: "https://cloud.example.org")
        _ = try await host.putUser(10, email: "alice@example.org")
        var phone = NextcloudPhone(
          server: server.url("public"), login: ("alice", try await host.addAppPassword(10, name: "Talk")),
          proxy: simulator.fcmEndpoint, client: HTTPClient.shared)
        await #expect(throws: (any Error).self) { try await phone.register() }
        let result = try await host.notify(
          10,
          parts: ["nextcloud": ["nid": 1, "app": "spreed", "subject": "Hello", "type": "chat", "id": "x"]])
        var proxies: [JSON] = []
        if case .array(let told)? = result["nextcloud"]?["proxies"] { proxies = told }
        #expect(proxies.first?["status"] == (trust.isEmpty ? .null : 404))
        #expect(proxies.first?["queued"] == (trust.isEmpty ? 1 : 0))
      }
      await simulator.stop()
    }
  }

  @Test func `An app that is installed anew takes the place of the old one`() async throws {
    try await test { world, _ in
      let password = try #require(try await world.user(10, "alice").first)
      var old = world.phone("alice", password)
      try await old.register()
      #expect(try await world.notify(10, "first")["devices"] == 1)
      // The same login, another token and another key.
      var new = world.phone("alice", password)
      try await new.register()
      #expect(new.identity?.identifier == old.identity?.identifier)
      let result = try await world.notify(10, "second")
      #expect(result["devices"] == 1)
      #expect(world.texts(old) == ["first"])
      #expect(world.texts(new) == ["second"])
    }
  }

  @Test func `Two accounts on one phone get each its own`() async throws {
    try await test { world, _ in
      var alice = world.phone("alice", try #require(try await world.user(10, "alice").first))
      try await alice.register()
      var bob = world.phone("bob", try #require(try await world.user(11, "bob").first), besides: alice)
      try await bob.register()
      _ = try await world.notify(10, "to Alice")
      _ = try await world.notify(11, "to Bob")
      // Each account knows its own server's signature, and opens nothing else.
      #expect(world.texts(alice) == ["to Alice"])
      #expect(world.texts(bob) == ["to Bob"])
      try await alice.unregister()
      #expect(try await world.notify(10, "nobody")["devices"] == 0)
      _ = try await world.notify(11, "still there")
      #expect(world.texts(bob) == ["to Bob", "still there"])
    }
  }

  @Test func `A proxy that has lost its devices makes no server forget its phones`() async throws {
    try await Stage.test { stage in
      try await Workplace.test { place in
        let port = try await freePort()
        try await server(place) { server in
          var phones: [NextcloudPhone] = []
          try await proxy(stage, port: port) { proxy in
            let world = World(stage: stage, proxy: proxy, server: server)
            for password in try await world.user(10, "alice", passwords: 3) {
              var phone = world.phone("alice", password)
              try await phone.register()
              phones.append(phone)
            }
            let result = try await world.notify(10, "before")
            #expect(result["devices"] == 3)
          }
          // It has served them once more since they were there, and then they are gone.
          try await proxy(stage, port: port) { _ in }
          let database = try await SQLiteDatabase.open(
            path: stage.place.folder.appending(path: "push-bouncer.sqlite").path)
          _ = try await database.execute(Statement("DELETE FROM registrations WHERE wire = 3"))
          await database.close()
          try await proxy(stage, port: port) { proxy in
            let world = World(stage: stage, proxy: proxy, server: server)
            let result = try await world.notify(10, "meanwhile")
            guard case .array(let proxies)? = result["proxies"] else { throw CocoaError(.coderInvalidValue) }
            #expect(proxies.map { $0["status"] } == [200])
            #expect(proxies.map { $0["failed"] } == [3])
            #expect(proxies.map { $0["unknown"] } == [0])
            // The apps are opened again, as they are each day.
            for index in phones.indices { try await phones[index].register() }
            #expect(try await world.notify(10, "after")["devices"] == 3)
            for phone in phones { #expect(world.texts(phone) == ["before", "after"]) }
          }
        }
      }
    }
  }

  @Test func `A server that has made new keys for its users gets its pushes through`() async throws {
    try await Stage.test { stage in
      try await Workplace.test { place in
        try await proxy(stage) { proxy in
          func world(_ server: Running) -> World { World(stage: stage, proxy: proxy, server: server) }
          var registered: NextcloudPhone?
          let port = try await freePort()
          try await server(place, port: port) { server in
            let password = try #require(try await world(server).user(10, "alice").first)
            var phone = world(server).phone("alice", password)
            try await phone.register()
            registered = phone
            #expect(try await world(server).notify(10, "before")["devices"] == 1)
          }
          let database = try await SQLiteDatabase.open(
            path: place.folder.appending(path: "push-bouncer.sqlite").path)
          _ = try await database.execute(Statement("DELETE FROM nextcloud_keys"))
          await database.close()
          try await server(place, port: port) { server in
            let world = world(server)
            var phone = try #require(registered)
            let old = try #require(phone.identity)
            // The next time the app is opened.
            try await phone.register()
            #expect(phone.identity?.identifier == old.identifier)
            #expect(phone.identity?.userKey != old.userKey)
            #expect(try await world.notify(10, "after")["devices"] == 1)
            #expect(world.texts(phone) == ["after"])
          }
        }
      }
    }
  }

  @Test func `A server that was restored gets its pushes through`() async throws {
    try await Stage.test { stage in
      try await Workplace.test { place in
        try await proxy(stage) { proxy in
          let files = ["push-bouncer.sqlite", "push-bouncer.sqlite-wal"].map {
            place.folder.appending(path: $0)
          }
          var lost: NextcloudPhone?
          try await server(place) { server in
            let world = World(stage: stage, proxy: proxy, server: server)
            var phone = world.phone("alice", try #require(try await world.user(10, "alice").first))
            try await phone.register()
          }
          let backup = try files.filter { FileManager.default.fileExists(atPath: $0.path) }.map {
            ($0, try Data(contentsOf: $0))
          }
          try await server(place) { server in
            let world = World(stage: stage, proxy: proxy, server: server)
            var phone = world.phone("alice", try await world.host().addAppPassword(10, name: "lost"))
            try await phone.register()
            lost = phone
          }
          for file in files { try? FileManager.default.removeItem(at: file) }
          for (file, contents) in backup { try contents.write(to: file) }
          try await server(place) { server in
            let world = World(stage: stage, proxy: proxy, server: server)
            // Its next phone has the number of the one that it no longer knows of, and so its identity.
            var phone = world.phone("alice", try await world.host().addAppPassword(10, name: "new"))
            try await phone.register()
            #expect(phone.identity?.identifier == lost?.identity?.identifier)
            #expect(try await world.notify(10, "hello")["devices"] == 2)
            #expect(world.texts(phone) == ["hello"])
            if let lost { #expect(world.texts(lost).isEmpty) }
          }
        }
      }
    }
  }
}
