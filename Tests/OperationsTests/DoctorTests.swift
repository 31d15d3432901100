import Foundation
import ProviderSimulator
import Providers
import Registrations
import SQL
import SQLiteMigrations
import Sealing
import Testing

@testable import Operations

@Suite struct DoctorTests {
  private let folder: Folder

  init() throws {
    folder = try Folder()
  }

  private func doctor(_ more: [String: String] = [:], theirTime: Date? = nil) throws -> Doctor {
    let overrides = [
      "keys.directory": "\(folder.path)/Keys", "database.url": "sqlite:\(folder.path)/test.sqlite",
    ].merging(more) { $1 }
    let (configuration, _) = try Configuration.load(
      file: nil, environment: [:], overrides: overrides, workingDirectory: folder.path)
    return Doctor(configuration, providerTime: { theirTime })
  }

  /// Runs `body` with a simulator whose credentials are in the folder.
  private func withSimulator(_ body: ([String: String]) async throws -> Void) async throws {
    let simulator = try await ProviderSimulator.start()
    do {
      try simulator.writeKeys(to: URL(filePath: "\(folder.path)/Keys"))
      try await body([
        "apns.endpoint": "https://127.0.0.1:\(simulator.apnsPort)",
        "fcm.endpoint": "https://127.0.0.1:\(simulator.fcmPort)",
        "providers.ca_file": "\(folder.path)/Keys/ca.pem",
      ])
    } catch {
      await simulator.stop()
      throw error
    }
    await simulator.stop()
  }

  private func faults(_ findings: [Finding]) -> Set<String> {
    Set(findings.filter { !$0.isGood }.map(\.check))
  }

  @Test(.timeLimit(.minutes(1))) func `A service in order has no fault, and nothing is changed by looking`()
    async throws
  {
    try await withSimulator { endpoints in
      try KeyFolder.prepare("\(folder.path)/Keys")
      _ = try BouncerKeyFiles(directory: "\(folder.path)/Keys").generate()
      let findings = try await doctor(endpoints, theirTime: Date()).examine()
      #expect(faults(findings).isEmpty, "\(findings)")
      #expect(
        Set(findings.map(\.check)).isSuperset(of: [
          "configuration", "keys", "permissions", "database", "clock", "apns:simulator", "fcm:default",
        ]))
      #expect(!FileManager.default.fileExists(atPath: "\(folder.path)/test.sqlite"))
    }
  }

  @Test(.timeLimit(.minutes(1))) func `A wrong key is told from a provider that cannot be reached`()
    async throws
  {
    try await withSimulator { endpoints in
      let file = "\(folder.path)/Keys/apns/simulator.json"
      var json = try #require(
        try JSONSerialization.jsonObject(with: Data(contentsOf: URL(fileURLWithPath: file))) as? [String: Any]
      )
      json["team_id"] = "WRONGTEAM0"
      try JSONSerialization.data(withJSONObject: json).write(to: URL(fileURLWithPath: file))
      let findings = try await doctor(endpoints).examine()
      let apns = try #require(findings.first { $0.check == "apns:simulator" })
      #expect(!apns.isGood && apns.detail.contains("InvalidProviderToken"))
      #expect(apns.advice?.contains("team_id") == true)
      #expect(findings.contains { $0.check == "fcm:default" && $0.isGood })
    }
  }

  @Test func `An empty folder lacks a key and credentials`() async throws {
    let findings = try await doctor().examine()
    #expect(faults(findings) == ["keys", "providers"])
    #expect(findings.allSatisfy { $0.isGood == ($0.advice == nil) })
    #expect(!FileManager.default.fileExists(atPath: "\(folder.path)/Keys"))
  }

  @Test func `Keys that others can read, broken files and retired keys are faults`() async throws {
    let files = BouncerKeyFiles(directory: "\(folder.path)/Keys")
    _ = try files.retire(try files.generate().publicKey)
    #expect(try await doctor().examine().contains { $0.detail == "every bouncer key is retired" })
    try folder.write("{", to: "Keys/apns/broken.json")
    try folder.setPermissions(0o644, of: "Keys/apns/broken.json")
    let findings = try await doctor().examine()
    #expect(findings.contains { $0.check == "keys" && $0.detail.contains("apns/broken.json") })
    #expect(
      findings.first { $0.check == "permissions" }?.advice == "chmod 600 \(folder.path)/Keys/apns/broken.json"
    )
  }

  @Test func `A storage.key that is lost or another is found before it does harm`() async throws {
    let key = try KeyFolder.storageKey(in: "\(folder.path)/Keys")
    let database = try await openDatabase(url: DatabaseURL(sqlitePath: "\(folder.path)/test.sqlite"))
    try await Migrator.migrate(database, SQLiteMigrations.all)
    try await StorageSeal.verify(key, of: database)
    await database.close()
    let good = try await doctor().databaseFinding()
    #expect(good.isGood, "\(good)")

    try folder.remove("Keys/storage.key")
    let lost = try await doctor().databaseFinding()
    #expect(!lost.isGood && lost.detail.contains("storage.key is missing"))
    #expect(!FileManager.default.fileExists(atPath: "\(folder.path)/Keys/storage.key"))

    _ = try KeyFolder.storageKey(in: "\(folder.path)/Keys")
    let other = try await doctor().databaseFinding()
    #expect(!other.isGood && other.detail.contains("another storage.key"))
  }

  @Test func `A database of a newer program, and none at all, are told apart`() async throws {
    #expect(
      try await doctor(["database.url": "sqlite:\(folder.path)/no/such/x.sqlite"]).databaseFinding().isGood
        == false)
    try folder.write(
      "this is no database, and long enough not to be taken for an empty one", to: "bad.sqlite")
    #expect(
      try await doctor(["database.url": "sqlite:\(folder.path)/bad.sqlite"]).databaseFinding().isGood == false
    )
    _ = try KeyFolder.storageKey(in: "\(folder.path)/Keys")
    let database = try await openDatabase(url: DatabaseURL(sqlitePath: "\(folder.path)/test.sqlite"))
    try await Migrator.migrate(database, SQLiteMigrations.all + [Migration(9999, "future", sql: "SELECT 1")])
    await database.close()
    #expect(try await doctor().databaseFinding().detail.contains("newer push-bouncer"))
  }

  @Test func `A clock that is wrong is a fault, one that cannot be compared is not`() async throws {
    #expect(try await doctor().clockFinding().isGood)
    #expect(try await doctor(theirTime: Date() - 30).clockFinding().isGood)
    let ahead = try await doctor(theirTime: Date() - 300).clockFinding()
    #expect(!ahead.isGood && ahead.detail == "is 300 seconds ahead")
    #expect(try await doctor(theirTime: Date() + 300).clockFinding().detail == "is 300 seconds behind")
  }

  @Test func `A certificate that is none is a fault`() async throws {
    try folder.write("nothing", to: "tls.pem")
    let findings = try await doctor([
      "http.tls.certificate_file": "\(folder.path)/tls.pem", "http.tls.key_file": "\(folder.path)/tls.pem",
    ]).examine()
    #expect(findings.first { $0.check == "tls" }?.detail.contains("http.tls.certificate_file") == true)
  }

  @Test func `Only what a provider says of the token itself is good`() {
    let good: [Outcome] = [
      .delivered(id: "x"), .dead(.unregistered, since: nil), .suspect(.badDeviceToken),
      .suspect(.fcmSenderIDMismatch),
    ]
    let bad: [Outcome] = [
      .retry(.connectFailed, notBefore: nil), .misconfigured(.invalidProviderToken), .rejected(.badPath),
    ]
    for outcome in good { #expect(Doctor.finding("apns:x", "topic", outcome).isGood) }
    for outcome in bad { #expect(!Doctor.finding("apns:x", "topic", outcome).isGood) }
  }
}
