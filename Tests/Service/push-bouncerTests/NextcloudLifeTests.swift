import AsyncHTTPClient
import Foundation
import HTTP
import ProviderSimulator
import SQL
import TestSupport
import Testing

@testable import Demo

/// What happens to phones, servers and proxies in the course of time: each ends with pushes flowing. What a stock server
/// goes through is in the simulated world.
@Suite(.stage) struct NextcloudLifeTests {
  private let stage = Fixture<Stage>.current

  private static let settings = [
    "--backend.token", Stage.backendToken, "--nextcloud.enabled", "true", "--nextcloud.allow_local_proxies",
    "true", "--server.rate_limit.per_user", "0",
  ]

  private func host(of server: Running, isNew: Bool = true) async throws -> HostApplication {
    let host = HostApplication(
      service: server.url("public"), token: Stage.backendToken, realm: "e502dde1-74fb-44b4-9b3f-b1b2f8c1c5a1",
      client: HTTPClient.shared)
    guard isNew else { return host }
    try await host.putRealm()
    for (id, name) in [(10, "alice"), (11, "bob")] {
      _ = try await host.putUser(Int64(id), email: "\(name)@example.org")
    }
    return host
  }

  private func account(_ host: HostApplication, _ id: Int64, at server: Running) async throws
    -> NextcloudAccount
  {
    NextcloudAccount(
      server: server.url("public"), user: id == 10 ? "alice" : "bob",
      password: try await host.addAppPassword(id), client: HTTPClient.shared)
  }

  @Test func `Phones of a program that is server and proxy get each its own`() async throws {
    // One request a minute from an address is what a stranger has; a proxy that is the same program is not asked so.
    try await stage.serve(Self.settings + ["--nextcloud.rate_limit.per_address", "1/60s"]) { running, _ in
      let host = try await host(of: running)
      let login = try await account(host, 10, at: running)
      var old = NextcloudPhone(login)
      try await old.register()
      for text in ["first", "second"] {
        let proxies = try await host.notify(10, chat: text)["proxies"]?.elements ?? []
        #expect(proxies.map { $0["status"] } == [200] && proxies.first?["sent"] == 1)
      }
      #expect(stage.subjects(old).sorted() == ["first", "second"])
    }
    try await stage.serve(Self.settings + ["--nextcloud.rate_limit.per_address", "0"]) { running, _ in
      let host = try await host(of: running, isNew: false)
      let login = try await account(host, 10, at: running)
      var old = NextcloudPhone(login)
      try await old.register()
      // An app that is installed anew, with the same login, another token and another key.
      var alice = NextcloudPhone(login)
      try await alice.register()
      #expect(alice.identity?.identifier == old.identity?.identifier)
      // Another account on that phone: each knows its own server's signature, and opens nothing else.
      var bob = NextcloudPhone(try await account(host, 11, at: running), besides: alice)
      try await bob.register()
      _ = try await host.notify(10, chat: "to Alice")
      _ = try await host.notify(11, chat: "to Bob")
      #expect(stage.subjects(old) == [])
      #expect(stage.subjects(alice) == ["to Alice"] && stage.subjects(bob) == ["to Bob"])
      try await alice.unregister()
      _ = try await host.notify(10, chat: "nobody but the first login's phone")
      #expect(try await host.notify(11, chat: "still there")["devices"] == 1)
      #expect(stage.subjects(alice) == ["to Alice"])
      #expect(stage.subjects(bob) == ["to Bob", "still there"])
    }
  }

  /// Stock servers up to version 34 encrypt with PKCS#1 v1.5 unless told otherwise.
  @Test(arguments: ["OAEP", "PKCS1"])
  func `A phone reads what a server encrypts with either padding, and says why it cannot read the rest`(
    padding: String
  ) async throws {
    try await stage.serve(Self.settings + ["--nextcloud.padding", padding]) { running, _ in
      let host = try await host(of: running)
      var alice = NextcloudPhone(try await account(host, 10, at: running))
      try await alice.register()
      var bob = NextcloudPhone(try await account(host, 11, at: running))
      try await bob.register()
      _ = try await host.notify(10, chat: "for Alice")
      let payload = try #require(
        stage.simulator.deliveries().filter { $0.token == alice.token.lowercased() }.last?.payload)
      let message = try JSON.parse(Array(payload))
      #expect(try alice.open(message)["subject"] == "for Alice")
      #expect(throws: Unreadable.wrongSignature) { try bob.open(message) }
      #expect(throws: Unreadable.notEncrypted) { try alice.open(["aps": [:]]) }
      // Another app at the same account: signed by the same server, and encrypted for another phone.
      var other = NextcloudPhone(try await account(host, 10, at: running))
      try await other.register()
      #expect(throws: Unreadable.wrongKey) { try other.open(message) }
    }
  }

  @Test(arguments: [[], ["--nextcloud.proxies_ca_file", "Keys/ca.pem"]])
  func `A proxy with a certificate of the operator's own is reached where that is trusted`(
    _ trust: [String]
  ) async throws {
    try await stage.place.serve(Self.settings + trust) { server in
      let host = try await host(of: server)
      // No proxy, but somebody who can say so, behind a certificate that the system does not know.
      let proxy = stage.simulator.fcmEndpoint.replacing("http:", with: "https:")
      var phone = NextcloudPhone(try await account(host, 10, at: server), proxy: proxy)
      await #expect(throws: (any Error).self) { try await phone.register() }
      let told = try await host.notify(10, chat: "Hello")["proxies"]?.elements.first
      #expect(told?["status"] == (trust.isEmpty ? .null : 404))
      #expect(told?["queued"] == (trust.isEmpty ? 1 : 0))
    }
  }

  @Test func `A proxy that has lost its devices makes no server forget its phones`() async throws {
    try await Workplace.test { place in
      let port = try await freePort()
      func proxy(_ body: (Running) async throws -> Void) async throws {
        try await stage.serve(["--http.port", "\(port)", "--nextcloud.enabled", "true"]) { running, _ in
          try await body(running)
        }
      }
      try await place.serve(Self.settings) { server in
        let host = try await host(of: server)
        var phones: [NextcloudPhone] = []
        try await proxy { proxy in
          for _ in 0..<3 {
            var phone = NextcloudPhone(try await account(host, 10, at: server), proxy: proxy.url("public"))
            try await phone.register()
            phones.append(phone)
          }
          #expect(try await host.notify(10, chat: "before")["devices"] == 3)
        }
        // It has served them once more since they were there, and then they are gone.
        try await proxy { _ in }
        let database = try await SQLiteDatabase.open(
          path: stage.place.folder.appending(path: "push-bouncer.sqlite").path)
        _ = try await database.execute(Statement("DELETE FROM registrations WHERE wire = 3"))
        await database.close()
        try await proxy { _ in
          let proxies = try await host.notify(10, chat: "meanwhile")["proxies"]?.elements ?? []
          #expect(proxies.map { $0["status"] } == [200])
          #expect(proxies.map { $0["failed"] } == [3] && proxies.map { $0["unknown"] } == [0])
          // The apps are opened again, as they are each day.
          for index in phones.indices { try await phones[index].register() }
          #expect(try await host.notify(10, chat: "after")["devices"] == 3)
          for phone in phones { #expect(stage.subjects(phone) == ["before", "after"]) }
        }
      }
    }
  }
}

extension Stage {
  /// The subjects that a phone has been able to read, in order.
  func subjects(_ phone: NextcloudPhone) -> [String] {
    simulator.deliveries().filter { $0.token == phone.token.lowercased() }.compactMap { delivery in
      (try? phone.open(JSON.parse(Array(delivery.payload))))?["subject"]?.string
    }
  }
}
