import Foundation
import ProviderSimulator
import TestSupport
import Testing

@Suite struct KeysTests {
  private func json(_ directory: URL, _ path: String) throws -> [String: Any] {
    let data = try Data(contentsOf: directory.appending(path: path))
    return try #require(JSONSerialization.jsonObject(with: data) as? [String: Any])
  }

  @Test func `writes a Keys folder that fits, with private files private`() async throws {
    try await withTemporaryFolder { directory in
      var configuration = SimulatedProviders.Configuration()
      configuration.keysDirectory = directory.path
      let simulator = try await SimulatedProviders.start(configuration)
      let apns = try json(directory, "apns/simulator.json")
      #expect(apns["key_id"] as? String == simulator.apnsKeyID)
      #expect(apns["team_id"] as? String == simulator.apnsTeamID)
      #expect(apns["environment"] as? String == "production")
      #expect((apns["topics"] as? [String])?.contains("com.nextcloud.Talk") == true)
      let keyFile = try #require(apns["key_file"] as? String)
      #expect(keyFile == "AuthKey_\(simulator.apnsKeyID).p8")
      let account = try json(directory, "fcm/default.json")
      #expect(account["type"] as? String == "service_account")
      #expect(account["token_uri"] as? String == "https://127.0.0.1:\(simulator.fcmPort)/token")
      let ca = try String(contentsOf: directory.appending(path: "ca.pem"), encoding: .utf8)
      #expect(try ca == simulator.certificateAuthorityPEM)
      let bouncer = try json(directory, "bouncer/simulator.json")
      #expect(Data(base64Encoded: try #require(bouncer["public_key"] as? String))?.count == 32)
      for path in [
        "apns/\(keyFile)", "apns/simulator.json", "fcm/default.json", "bouncer/simulator.json", "ca-key.pem",
      ] {
        let attributes = try FileManager.default.attributesOfItem(
          atPath: directory.appending(path: path).path)
        #expect((attributes[.posixPermissions] as? Int) == 0o600, "\(path)")
      }
      await simulator.stop()
    }
  }

  @Test func `writes a key of the sandbox where it is asked to, and keeps it`() async throws {
    try await withTemporaryFolder { directory in
      var configuration = SimulatedProviders.Configuration()
      configuration.keysDirectory = directory.path
      let without = try await SimulatedProviders.start(configuration)
      await without.stop()
      #expect(throws: CocoaError.self) { try json(directory, "apns/sandbox.json") }
      configuration.hasSandbox = true
      var ids: [String] = []
      for _ in 1...2 {
        let simulator = try await SimulatedProviders.start(configuration)
        let sandbox = try json(directory, "apns/sandbox.json")
        #expect(sandbox["environment"] as? String == "sandbox")
        #expect(sandbox["key_id"] as? String == simulator.apnsSandboxKey.id)
        ids.append(simulator.apnsSandboxKey.id)
        await simulator.stop()
      }
      #expect(Set(ids).count == 1)
    }
  }

  @Test func `matches a service that still runs after its own restart, and touches nothing of others`()
    async throws
  {
    try await withTemporaryFolder { directory in
      var configuration = SimulatedProviders.Configuration()
      configuration.keysDirectory = directory.path
      configuration.clear = true
      let first = try await SimulatedProviders.start(configuration)
      await first.stop()
      let bouncer = try Data(contentsOf: directory.appending(path: "bouncer/simulator.json"))
      try Data("seal".utf8).write(to: directory.appending(path: "storage.key"))
      configuration.apnsPort = first.apnsPort
      configuration.fcmPort = first.fcmPort
      try await Client.with(configuration) { client in
        #expect(client.simulator.apnsKeyID == first.apnsKeyID)
        #expect(client.simulator.apnsPrivateKeyPEM == first.apnsPrivateKeyPEM)
        #expect(client.simulator.serviceAccountPrivateKeyPEM == first.serviceAccountPrivateKeyPEM)
        #expect(try client.simulator.certificateAuthorityPEM == first.certificateAuthorityPEM)
        let pushed = try await client.push()
        #expect(pushed.status == 200)
        let token = try await client.accessToken()
        #expect(!token.isEmpty)
      }
      let account = try json(directory, "fcm/default.json")
      #expect(account["token_uri"] as? String == "http://127.0.0.1:\(first.fcmPort)/token")
      #expect(try Data(contentsOf: directory.appending(path: "bouncer/simulator.json")) == bouncer)
      #expect(try Data(contentsOf: directory.appending(path: "storage.key")) == Data("seal".utf8))
    }
  }

  @Test func `refuses a folder with real credentials in its places`() async throws {
    try await withTemporaryFolder { directory in
      let fcm = directory.appending(path: "fcm")
      try FileManager.default.createDirectory(at: fcm, withIntermediateDirectories: true)
      let real = Data(#"{"type":"service_account","project_id":"real"}"#.utf8)
      try real.write(to: fcm.appending(path: "default.json"))
      var configuration = SimulatedProviders.Configuration()
      configuration.keysDirectory = directory.path
      await #expect(throws: (any Error).self) { try await SimulatedProviders.start(configuration) }
      #expect(try Data(contentsOf: fcm.appending(path: "default.json")) == real)
      let simulator = try await SimulatedProviders.start()
      #expect(throws: (any Error).self) { try simulator.writeKeys(to: directory) }
      await simulator.stop()
    }
  }
}
