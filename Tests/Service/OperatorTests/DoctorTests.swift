import Basics
import Crypto
import Delivery
import Foundation
import Migrations
import ProviderSimulator
import Providers
import Registrations
import SQL
import Sealing
import TestSupport
import Testing

@testable import HTTPClient
@testable import Operator
@testable import Platform

@Suite(.serialized) struct DoctorTests {
  private var folder: TestFolder { Fixture.current }

  private func doctor(
    _ folder: TestFolder, _ more: [String: String] = [:], now: Date? = nil, theirTime: Date? = nil,
    descriptors: Int = 65_536,
    answers: [String: Doctor.PushServiceAnswer] = [:]
  ) throws -> Doctor {
    let overrides = [
      "keys.directory": folder.path, "database.url": "sqlite:\(folder.path)/test.sqlite",
    ].merging(more) { $1 }
    let (configuration, _) = try Configuration.load(
      file: nil, environment: [:], overrides: overrides, workingDirectory: folder.path)
    return Doctor(
      configuration, now: { now ?? Date() }, descriptors: .init(descriptors), providerTime: { theirTime },
      pushService: { answers[$0] ?? .silent }, mounts: "")
  }

  /// Runs a test with a simulator whose credentials are in the folder.
  private func withSimulator(
    _ body: (_ folder: TestFolder, _ endpoints: [String: String]) async throws -> Void
  ) async throws {
    try await withKeyFolder { folder in
      let simulator = try await SimulatedProviders.start()
      do {
        try simulator.writeKeys(to: folder.url)
        try await body(
          folder,
          [
            "apns.endpoint": simulator.apnsEndpoint, "fcm.endpoint": simulator.fcmEndpoint,
            "providers.ca_file": "\(folder.path)/ca.pem",
          ])
      } catch {
        await simulator.stop()
        throw error
      }
      await simulator.stop()
    }
  }

  @Test(
    .keyFolder,
    arguments: [
      ([:], .good, "is not set, and no chat server has called yet"),
      (["http.public_url": "https://push.example.org"], .good, "are told https://push.example.org"),
      (["http.trusted_proxies": "127.0.0.1"], .warning, "(server/billing) are told http://127.0.0.1:8080"),
      (["http.host": "0.0.0.0"], .warning, "are told http://0.0.0.0:8080"),
      (["nextcloud.enabled": "true"], .warning, "(nextcloud.default_proxy) are told http://127.0.0.1:8080"),
      (
        ["nextcloud.enabled": "true", "nextcloud.default_proxy": "https://p.example.org"], .good,
        "is not set, and no chat server has called yet"
      ),
    ] as [([String: String], Finding.Standing, String)])
  func `That others are told the listener's own address is a warning`(
    settings: [String: String], standing: Finding.Standing, detail: String
  ) async throws {
    let finding = try await doctor(folder, settings).publicURLFinding(asksDatabase: true)
    #expect(finding.standing == standing && finding.detail.contains(detail), "\(finding)")
  }

  /// What lies where `database.url` leads, when store.json knows a database.
  enum Place: String, CaseIterable {
    case same, missing, empty, new, other
  }

  @Test(.keyFolder, arguments: Place.allCases, [true, false])
  func `A database that is not the one before is a fault`(place: Place, isKnown: Bool) async throws {
    let path = "\(folder.path)/test.sqlite"
    let id = [UInt8](repeating: 1, count: 16)
    if isKnown {
      let file = StoreRecord.file(in: folder.path)
      try Data(StoreRecord(StoreState(id: id, devices: 0)).bytes).write(to: file)
    }
    if place != .missing {
      let database = try await SQLiteDatabase.open(path: path)
      if place != .empty { try await Schema.migrate(database) }
      if place == .same || place == .other {
        try await database.execute(
          "INSERT INTO metadata (name, value) VALUES ('store', $1)", .bytes(place == .same ? id : [2]))
      }
      await database.close()
    }
    let finding = try #require(try await doctor(folder).examine().first { $0.check == "database" })
    #expect(finding.isGood == (place == .same || !isKnown), "\(finding)")
    let sentence: [Place: String] = [
      .missing: "is not there", .empty: "is empty", .new: "is new", .other: "is another one",
    ]
    if isKnown, let sentence = sentence[place] {
      #expect(finding.detail.contains("\(sentence), and \(folder.path)/store.json knows"), "\(finding)")
      #expect(finding.advice?.contains("remove store.json") == true)
    }
    // It has only looked.
    #expect(FileManager.default.fileExists(atPath: path) == (place != .missing))
  }

  @Test(.keyFolder) func `Once a chat server has called http.public_url should be set`() async throws {
    let database = try await SQLiteDatabase.open(path: "\(folder.path)/test.sqlite")
    try await Schema.migrate(database)
    let servers = RemoteServers(
      database: database, storageKey: try KeyFolder.storageKey(in: folder.path), now: { Date() })
    let (server, _) = try await servers.add(hostname: try Hostname("chat.example.org"), contactEmail: "")
    #expect(try await doctor(folder).publicURLFinding(asksDatabase: true).standing == .good)
    _ = try await database.execute(
      Statement("UPDATE remote_servers SET last_request_at = 1 WHERE id = $1", .integer(server.id)))
    let finding = try await doctor(folder).publicURLFinding(asksDatabase: true)
    #expect(finding.standing == .warning)
    await database.close()
  }

  private func faults(_ findings: [Finding]) -> Set<String> {
    Set(findings.filter { !$0.isGood }.map(\.check))
  }

  private func exists(_ name: String, in folder: TestFolder) -> Bool {
    FileManager.default.fileExists(atPath: folder.url.appending(path: name).path)
  }

  @Test(
    .keyFolder,
    arguments: [
      (5462, nil, .good, "4096 connections"), (5460, nil, .warning, "only 4095"),
      (100, nil, .fault, "only 100"),
      (1024, 768, .good, "768 connections"),
      (1024, 769, .warning, "only 768 connections of http.max_connections (769)"),
    ] as [(Int, Int?, Finding.Standing, String)])
  func `Too few descriptors are named`(
    _ limit: Int, _ wanted: Int?, _ standing: Finding.Standing, _ detail: String
  ) async throws {
    let more = wanted.map { ["http.max_connections": "\($0)"] } ?? [:]
    let findings = try await doctor(folder, more, descriptors: limit).examine()
    let found = findings.filter { $0.check == "descriptors" }
    #expect(found.count == 1 && found[0].standing == standing && found[0].detail.contains(detail), "\(found)")
    #expect(standing == .good || found[0].advice?.contains("LimitNOFILE") == true, "\(found)")
  }

  @Test(
    .keyFolder,
    arguments: ServerCertificateTests.lives.flatMap { [($0, $1 + 0.1, .good), ($0, $1 - 0.1, .fault)] }
      + [(90, -1, .fault)] as [(Double, Double, Finding.Standing)])
  func `A certificate has one finding, which says when it expires`(
    life: Double, days: Double, standing: Finding.Standing
  ) async throws {
    let end = Date() + 30 * 86_400
    let (certificate, key) = try TestCertificate.makePEM(start: end - life * 86_400, end: end)
    try Data(certificate.utf8).write(to: folder.url.appending(path: "c.pem"))
    try Data(key.utf8).write(to: folder.url.appending(path: "k.pem"))
    let files = [
      "http.tls.certificate_file": "\(folder.path)/c.pem", "http.tls.key_file": "\(folder.path)/k.pem",
      "providers.ca_file": "\(folder.path)/c.pem",
    ]
    let findings = try await doctor(folder, files, now: end - days * 86_400).examine()
    let tls = findings.filter { $0.check == "tls" }
    #expect(tls.map(\.standing) == [standing] && tls[0].detail.contains(end.day), "\(tls)")
    #expect((tls[0].advice == nil) == (standing == .good))
    let roots = findings.filter { $0.check == "providers.ca_file" }
    #expect(roots.map(\.standing) == [days < 0 ? .warning : .good], "\(roots)")
  }

  @Test func `A service in order has no fault and looking changes nothing`() async throws {
    try await withSimulator { folder, endpoints in
      _ = try KeyFolder.storageKey(in: folder.path)
      try folder.writeBouncerKey()
      let findings = try await doctor(folder, endpoints, theirTime: Date()).examine()
      #expect(faults(findings).isEmpty, "\(findings)")
      #expect(
        Set(findings.map(\.check)).isSuperset(of: [
          "configuration", "keys", "permissions", "database", "clock", "apns:simulator",
        ]))
      #expect(findings.contains { $0.check.hasPrefix("fcm:") })
      #expect(
        findings.first { $0.check == "key exchange" }?.detail
          == "X25519MLKEM768, which a quantum computer does not break, with apns:simulator, fcm:default")
      #expect(!exists("test.sqlite", in: folder))
    }
  }

  @Test func `A wrong key is told from a provider that cannot be reached`() async throws {
    try await withSimulator { folder, endpoints in
      try folder.writeAPNs("stranger", environment: "sandbox")
      var findings = try await doctor(folder, endpoints).examine()
      let stranger = try #require(findings.first { $0.check == "apns:stranger" })
      #expect(!stranger.isGood && stranger.detail.contains("InvalidProviderToken"))
      #expect(stranger.advice?.contains("team_id") == true && stranger.advice?.contains("clock") == true)
      #expect(findings.contains { $0.check == "apns:simulator" && $0.isGood })

      // A port that nobody listens on.
      let nowhere = endpoints.merging(["apns.endpoint": "https://127.0.0.1:1"]) { $1 }
      findings = try await doctor(folder, nowhere).examine()
      let unreached = try #require(findings.first { $0.check == "apns:simulator, apns:stranger" })
      #expect(!unreached.isGood && unreached.advice?.contains("reached") == true)
      #expect(unreached.detail.contains("connectionRefused"))
      #expect(findings.contains { $0.check.hasPrefix("fcm:") && $0.isGood })
    }
  }

  @Test(.keyFolder) func `An empty folder lacks a key and credentials`() async throws {
    let directory = folder.url.appending(path: "Keys").path
    let findings = try await doctor(folder, ["keys.directory": directory, "webpush.enabled": "false"])
      .examine()
    #expect(faults(findings) == ["keys", "providers"])
    #expect(findings.first { $0.check == "webpush" }?.standing == .skipped)
    #expect(findings.filter { $0.isGood == ($0.advice != nil) }.isEmpty)
    #expect(!exists("Keys", in: folder))
  }

  @Test(.keyFolder)
  func `Devices whose app no key serves are named, and those of the push proxy are no fault`() async throws {
    let key = try KeyFolder.storageKey(in: folder.path)
    let database = try await openDatabase(url: DatabaseURL("sqlite:\(folder.path)/test.sqlite"))
    try await Schema.migrate(database)
    func add(_ count: Int, wire: Int64 = 1, kind: Int64 = 1, _ target: String?, token: String? = nil)
      async throws
    {
      for _ in 0..<count {
        let place = SealedPlace.token(tokenID: .integer(5))
        _ = try await database.execute(
          Statement(
            "INSERT INTO registrations (wire, kind, token, token_hash, token_id, target, registered_at) VALUES ($1, $2, $3, 0, 5, $4, 0)",
            .integer(wire), .integer(kind), token.map { .bytes(key.seal($0, at: place)) } ?? .null,
            .text(target)))
      }
    }
    try await add(2, "org.acme.other")
    try await add(1, "org.example.Chat")
    try await add(3, "org.example.chat")
    try await add(1, wire: 3, "com.example.talk")
    // PushKit tokens are for the topic of the app's calls.
    try await add(1, wire: 3, kind: 3, "org.example.calls")
    try await add(2, kind: 2, nil, token: "fcm-token")
    try await add(1, kind: 2, nil, token: "webpush:e30")
    await database.close()

    let apns = APNsCredential(
      name: "main", keyID: "K", teamID: "T", privateKey: "",
      topics: ["org.example.chat", "org.example.calls.voip"],
      environment: .production)
    let findings = try await doctor(folder).unservedFindings(Credentials(apns: [apns], fcm: []))
    #expect(
      findings.map(\.detail) == [
        "2 devices of org.acme.other: no key in Keys/apns lists it",
        "1 device of org.example.Chat: no key in Keys/apns lists it",
        "2 devices of the default Firebase project: no service account in Keys/fcm serves it",
        "1 device of com.example.talk: no key in Keys/apns lists it",
      ])
    #expect(findings.map(\.standing) == [.fault, .fault, .fault, .warning])
    #expect(findings[1].advice?.hasPrefix("org.example.chat is listed") == true)
    let google = try #require(URL(string: "https://oauth2.googleapis.com/token"))
    let fcm = FCMCredential(
      name: "default", projectID: "demo", clientEmail: "a", privateKeyID: "b", privateKey: "",
      tokenURI: google)
    var served = Credentials(apns: [apns], fcm: [fcm])
    served.apns[0].topics += ["org.acme.other", "org.example.Chat", "com.example.talk"]
    #expect(try await doctor(folder).unservedFindings(served).map(\.isGood) == [true])
    // The key of the sandbox was taken away.
    let again = try await openDatabase(url: DatabaseURL("sqlite:\(folder.path)/test.sqlite"))
    _ = try await again.execute("UPDATE registrations SET environment = 2 WHERE target = 'org.acme.other'")
    await again.close()
    let lost = try await doctor(folder).unservedFindings(served)
    #expect(
      lost.map(\.detail) == [
        "2 devices of org.acme.other in Apple's sandbox: no key of that environment in Keys/apns lists it, only one of the other"
      ])
    #expect(lost.map(\.standing) == [.fault])
  }

  @Test(
    .keyFolder,
    arguments: [
      ([:], .warning, "push services get no contact"),
      (["http.public_url": "https://push.example.org"], .warning, "are told https://push.example.org only"),
      (["webpush.contact": "https://example.org/push"], .good, "may write to https://example.org/push"),
      (
        ["http.public_url": "https://push.example.org", "operator.email": "a@example.org"], .good,
        "may write to mailto:a@example.org"
      ),
    ] as [([String: String], Finding.Standing, String)])
  func `Push services that have nobody to write to are a warning`(
    settings: [String: String], standing: Finding.Standing, detail: String
  ) async throws {
    let findings = try await doctor(folder, settings).webPushFindings(asksDatabase: false)
    let finding = try #require(findings.first { $0.check == "webpush.contact" })
    #expect(finding.standing == standing && finding.detail.contains(detail), "\(finding)")
  }

  @Test(.keyFolder)
  func `Where another bouncer has the credentials none is missed`() async throws {
    try folder.writeBouncerKey()
    let remote = [
      "server.bouncer": "https://push.example.org", "server.org_id": UUID().uuidString,
      "server.org_key": String(repeating: "k", count: 64),
    ]
    let findings = try await doctor(folder, remote).providerFindings(Credentials(apns: [], fcm: []))
    #expect(!findings.contains { $0.check == "providers" }, "\(findings)")
  }

  @Test(.keyFolder) func `Web Push alone is no fault, and its key pair is not made by who looks for it`()
    async throws
  {
    try folder.writeBouncerKey()
    let key = try KeyFolder.storageKey(in: folder.path)
    let doctor = try doctor(folder, ["operator.email": "admin@example.org"])
    var findings = await doctor.examine()
    #expect(faults(findings).isEmpty, "\(findings)")
    #expect(
      findings.contains {
        $0.check == "providers" && $0.standing == .warning
          && $0.detail.hasSuffix("only Web Push can be delivered")
      })
    #expect(
      findings.first { $0.check == "webpush" }?.detail.contains("serve makes its VAPID key pair") == true)
    #expect(
      findings.first { $0.check == "webpush.contact" }?.detail.contains("mailto:admin@example.org") == true)

    let database = try await openDatabase(url: DatabaseURL("sqlite:\(folder.path)/test.sqlite"))
    try await Schema.migrate(database)
    try await StorageSeal.verify(key, of: database)
    let number = Statement("SELECT COUNT(*) AS count FROM vapid_keys")
    findings = await doctor.examine()
    #expect(try await database.query(number).first?.int64("count") == 0)
    let vapid = try await VAPIDKeys(database: database, storageKey: key, now: { Date() }).key()
    findings = await doctor.examine()
    let finding = try #require(findings.first { $0.check == "webpush" })
    #expect(finding.isGood && finding.detail.contains("/api/v1/zulip-services/webpush/vapid"), "\(finding)")
    #expect(
      finding.detail.contains(/fingerprint [0-9a-f]{8},/) && !finding.detail.contains(vapid.publicKey))

    // What does not open is told, and stays.
    _ = try await database.execute(Statement("UPDATE vapid_keys SET private_key = $1", .bytes([1, 2, 3])))
    findings = await doctor.examine()
    #expect(faults(findings) == ["webpush"], "\(findings)")
    #expect(try await database.query(number).first?.int64("count") == 1)
    await database.close()
  }

  @Test(.keyFolder) func `The operator's own push services are looked at`() async throws {
    let hosts = [
      "ntfy", "closed.example.org", "gone.example.org", "self-signed.example.org", "mute.example.org",
    ]
    let findings = try await doctor(
      folder, ["webpush.allow_private_hosts": hosts.joined(separator: ",")],
      answers: [
        "ntfy": .answered, "closed.example.org": .failed(.connectionRefused),
        "gone.example.org": .failed(.nameNotResolved),
        "self-signed.example.org": .failed(.certificateUntrusted), "mute.example.org": .silent,
      ]
    ).webPushFindings()
    #expect(
      faults(findings) == [
        "webpush:gone.example.org", "webpush:mute.example.org", "webpush:self-signed.example.org",
      ])
    #expect(findings.contains { $0.check == "webpush:ntfy" && $0.standing == .good })
    #expect(findings.contains { $0.check == "webpush:closed.example.org" && $0.standing == .skipped })
    #expect(findings.filter { [.good, .skipped].contains($0.standing) == ($0.advice != nil) }.isEmpty)
    // They are nobody's matter where Web Push is off.
    let off = try await doctor(
      folder, ["webpush.allow_private_hosts": "gone.example.org", "webpush.enabled": "false"],
      answers: ["gone.example.org": .failed(.nameNotResolved)]
    ).webPushFindings()
    #expect(off.map(\.standing) == [.skipped])
  }

  @Test(.keyFolder) func `Broken and retired keys are faults, and exposed ones a warning`() async throws {
    _ = try folder.writeBouncerKey()
    // By hand: the last active one is not retired by the command.
    let keys = folder.url.appending(path: "bouncer")
    let name = try #require(FileManager.default.contentsOfDirectory(atPath: keys.path).first)
    let text = try String(contentsOf: keys.appending(path: name), encoding: .utf8)
    try folder.write("bouncer/\(name)", text.replacing("active", with: "retired"))
    #expect(try await doctor(folder).examine().contains { $0.detail == "every bouncer key is retired" })
    try folder.write("apns/broken.json", "{", mode: 0o644)
    let findings = try await doctor(folder).examine()
    #expect(findings.contains { $0.check == "keys" && $0.detail.contains("apns/broken.json") })
    let permissions = try #require(findings.first { $0.check == "permissions" })
    #expect(
      permissions.standing == .warning && permissions.advice == "chmod 600 \(folder.path)/apns/broken.json")
  }

  @Test(.keyFolder) func `What nobody reads in the key folder is named`() async throws {
    _ = try folder.writeBouncerKey()
    try folder.write(
      "apns/main.json",
      """
      {"key_file": "AuthKey.pem", "key_id": "ABCDE12345", "team_id": "TEAM123456", "topics": ["org.example.chat"], \
      "environment": "production"}
      """)
    try folder.write("apns/AuthKey.pem", P256.Signing.PrivateKey().pemRepresentation)
    func warnings() async throws -> [String] {
      try await doctor(folder).examine().filter { $0.check == "keys" && $0.standing == .warning }.map(
        \.detail)
    }
    // What Kubernetes puts beside the files of a secret is no mistake.
    try folder.write("fcm/..data", "")
    #expect(try await warnings() == [])
    for name in ["apns/AuthKey_2.p8", "fcm/default.JSON", "fcm/project.json.txt", "bouncer/old.bak"] {
      try folder.write(name, "{}")
    }
    let names = ["apns/AuthKey_2.p8", "bouncer/old.bak", "fcm/default.JSON", "fcm/project.json.txt"]
    let list = names.map { "\(folder.path)/\($0)" }.joined(separator: ", ")
    #expect(try await warnings() == ["these files are not read: \(list)"])
  }

  @Test(.keyFolder) func `The clock is compared with the newest time in the database`() async throws {
    _ = try KeyFolder.storageKey(in: folder.path)
    let url = DatabaseURL(sqlitePath: "\(folder.path)/test.sqlite")
    let database = try await openDatabase(url: url)
    try await Schema.migrate(database)
    func finding(newest seconds: TimeInterval) async throws -> Finding {
      try await ClockRecord(database: database).write(Date() + seconds)
      return try #require(
        try await doctor(folder, theirTime: Date()).examine().first { $0.check == "clock" })
    }
    #expect(try await finding(newest: -3600).detail == "is right")
    let behind = try await finding(newest: 6 * 3600)
    #expect(!behind.isGood && behind.detail.contains("6 h behind"))
    #expect(behind.advice?.contains("push-bouncer clock trust") == true)
    let idle = try await finding(newest: -3 * 86_400)
    #expect(idle.isGood && idle.detail.contains("72 h"))
    await database.close()
  }

  @Test(.keyFolder) func `A clock that is wrong is a fault and one that cannot be compared is none`()
    async throws
  {
    #expect(try await doctor(folder).clockFinding().isGood)
    #expect(try await doctor(folder, theirTime: Date() - 30).clockFinding().isGood)
    #expect(
      try await doctor(folder, theirTime: Date() - 300).clockFinding().detail == "is 300 seconds ahead")
    let behind = try await doctor(folder, theirTime: Date() + 300).clockFinding()
    #expect(!behind.isGood && behind.detail == "is 300 seconds behind")
  }

  @Test func `Only what is said of the token itself is good`() {
    let good: [Outcome] = [
      .delivered, .dead(.unregistered, since: nil), .suspect(.badDeviceToken),
      .suspect(.fcmSenderIDMismatch),
    ]
    let bad: [Outcome] = [
      .retry(.connectFailed, notBefore: nil, scope: .route), .misconfigured(.invalidProviderToken),
      .rejected(.badPath),
    ]
    for outcome in good { #expect(findings([("apns:x", "topic", outcome)]).first?.isGood == true) }
    for outcome in bad { #expect(findings([("apns:x", "topic", outcome)]).first?.isGood == false) }
  }

  private func findings(
    _ outcomes: [(check: String, target: String, outcome: Outcome)], clockAhead: Int? = nil
  ) -> [Finding] {
    Doctor.findings(
      outcomes.map {
        .init(provider: .apns, check: $0.check, target: $0.target, result: .success($0.outcome))
      },
      clockAhead: clockAhead
    ).sorted { $0.check < $1.check }
  }

  @Test func `With whom keys are agreed on so that a quantum computer breaks them is no fault`() {
    func detail(_ keyExchanges: [(String, KeyExchange?)]) -> [String] {
      let findings = Doctor.keyExchangeFindings(
        keyExchanges.map {
          .init(provider: .apns, check: $0, target: "t", result: .success(.delivered), keyExchange: $1)
        })
      #expect(findings.filter { !$0.isGood }.isEmpty)
      return findings.map(\.detail)
    }
    let risk = "recorded traffic there could be read with a quantum computer"
    #expect(
      detail([("apns:b", .p256), ("apns:a", .other), ("fcm:c", .x25519MLKEM768), ("fcm:d", nil)])
        == ["no X25519MLKEM768 with apns:a, apns:b: \(risk); with fcm:c there is"])
    #expect(detail([("apns:a", .x25519)]) == ["no X25519MLKEM768 with apns:a: \(risk)"])
    #expect(detail([("apns:a", nil)]).isEmpty)
  }

  @Test func `One cause is one finding, with all topics and credentials that have it`() {
    let dead = Outcome.misconfigured(.invalidProviderToken)
    let outage = Outcome.retry(.connectionRefused, notBefore: nil, scope: .route)
    let found = findings([
      ("apns:a", "org.example.two", dead), ("apns:a", "org.example.one", dead),
      ("apns:b", "org.example.b", dead),
      ("apns:c", "org.example.c", outage), ("apns:d", "org.example.d", outage),
    ])
    #expect(found.map(\.check) == ["apns:a", "apns:b", "apns:c, apns:d"])
    #expect(found[0].detail.hasPrefix("org.example.one, org.example.two: InvalidProviderToken: "))
    #expect(
      found[2].detail.hasPrefix("org.example.c, org.example.d: connectionRefused: Apple's push service "))
  }

  @Test(
    arguments: [
      (nil, "See first that this machine's clock is right. Compare key_id"),
      (-3, "This machine's clock is right. Compare key_id"),
      (
        4000,
        "Set this machine's clock first: it is 4000 seconds ahead. If that does not help: Compare key_id"
      ),
      (-90, "Set this machine's clock first: it is 90 seconds behind."),
    ] as [(Int?, String)])
  func `A refused key is advised on by what is known of the clock`(_ ahead: Int?, _ advice: String) throws {
    let found = findings(
      [("apns:a", "org.example.one", .misconfigured(.invalidProviderToken))], clockAhead: ahead)
    #expect(found.first?.advice?.hasPrefix(advice) == true, "\(found)")
    // No clock makes Apple say this.
    let other = findings(
      [("apns:a", "org.example.one", .misconfigured(.topicDisallowed))], clockAhead: ahead)
    #expect(other.first?.advice?.contains("clock") == false)
  }
}
