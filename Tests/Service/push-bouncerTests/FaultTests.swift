import Foundation
import HTTP
import TestSupport
import Testing

@testable import Demo

/// Tests operators' mistakes: `serve` refuses each with a sentence that says what to do, and `doctor` says
/// the same.
@Suite struct FaultTests {
  private var place: Workplace { Fixture.current }

  @Test(.place(begun: true), arguments: Mistake.all) func `What serve refuses doctor finds in the same words`(
    _ mistake: Mistake
  )
    async throws
  {
    try await mistake.make(place)
    let launcher = mistake.launcher
    if launcher == Mistake.nobody { try place.giveAway() }
    try mistake.close(place)
    let arguments = Mistake.ports(mistake.arguments) + mistake.arguments
    let served = try await place.run(["serve"] + arguments, through: launcher)
    #expect(served.status == 1)
    let error = try #require(
      served.errors.split(separator: "\n").last { $0.hasPrefix("Error: ") }, "\(served)")
    for part in mistake.says { #expect(error.contains(part), "\(error)") }
    for foreign in Mistake.foreign { #expect(!served.errors.contains(foreign), "\(served.errors)") }
    #expect(!served.errors.contains("hunter2"))

    let examined = try await place.run(["doctor", "--json"] + arguments, through: launcher)
    #expect(examined.status == 1)
    let findings = try examined.json["findings"]?.elements ?? []
    let faults = findings.filter { $0["status"] == "fault" }
    let isNamed = faults.contains { fault in
      let (detail, advice) = (fault["detail"]?.string ?? "?", fault["advice"]?.string ?? "?")
      // Not every fault has advice of its own.
      return ["Error: \(detail)", "Error: \(detail); \(advice)"].contains(String(error))
    }
    #expect(isNamed, "\(error)\n\(faults)")
    for foreign in Mistake.foreign { #expect(!examined.output.contains(foreign), "\(examined.output)") }
    #expect(!examined.output.contains("hunter2"))
  }

  @Test(.place(begun: true), arguments: ["http", "admin"])
  func `A port that is taken is named by serve and by doctor`(
    _ listener: String
  ) async throws {
    let taken = try HeldSocket()
    let arguments = ["--\(listener).port", "\(taken.port)"]
    let all = Mistake.ports(arguments) + arguments
    let served = try await place.run(["serve"] + all)
    #expect(served.status == 1)
    let words =
      "\(listener).port names port \(taken.port) of 127.0.0.1, which cannot be used: Address already in use"
    #expect(served.errors.contains("Error: \(words); end the program"), "\(served.errors)")
    // Nothing has begun that would have to be ended.
    #expect(!served.errors.contains("database opened"))
    let examined = try await place.run(["doctor"] + all)
    #expect(examined.status == 1 && examined.output.contains(words), "\(examined.output)")
  }

  @Test(
    .place(begun: true),
    arguments: [
      (
        "fcm/google-services.json", #"{"project_info":{"project_id":"x"},"client":[]}"#,
        "google-services.json"
      ),
      ("fcm/x.json", #"{"type":"authorized_user"}"#, "another kind of Google's keys"),
      ("fcm/x.json", #"{"key_file":"a.p8","key_id":"x"}"#, "put it into Keys/apns"),
      ("fcm/x.json", #"{}"#, "no service-account file"),
      ("apns/x.json", "hunter2", "is no JSON: line 1, column 1"),
      ("apns/AuthKey_X.p8", "hunter2", "no JSON file beside it"),
      (
        "apns/x.json",
        #"{"key_file":"a.p8","key_id":"ABCDE12345","team_id":"ABCDE12345","topics":["a.b"],"environment":"production"}"#,
        "a.p8 is not beside this file"
      ),
      ("bouncer/x.json", #"{"public_key":1}"#, "private_key"),
    ])
  func `A key file that is none is named by the log and by doctor in the same words`(
    _ file: String, _ text: String, _ says: String
  ) async throws {
    try place.write("Keys/\(file)", text)
    try await place.serve { running in
      let line = try #require(running.lines.first { $0["message"] == "key file cannot be used" })
      let problem = try #require(line["problem"]?.string)
      #expect(line["file"]?.string == file && problem.contains(says), "\(problem)")
      #expect(!running.logged.contains("hunter2"))
      let doctor = try await place.run(["doctor"] + Mistake.ports([]))
      #expect(doctor.status == 1 && doctor.output.contains("Keys/\(file): \(problem)"), "\(doctor.output)")
      #expect(!doctor.output.contains("hunter2"))
    }
  }

  /// What doctor says of the listeners of a service that runs, if the settings name this port for the public one.
  private func listeners(
    of running: Running, _ place: Workplace, port: Int
  ) async throws -> (http: JSON, admin: JSON) {
    let admin = try ["--admin.port", "\(#require(running.port(of: "admin")))"]
    let doctor = try await place.run(
      ["doctor", "--json", "--http.port", "\(port)"] + admin + Mistake.nowhere)
    let findings = try doctor.json["findings"]?.elements ?? []
    func finding(_ name: String) throws -> JSON {
      try #require(findings.first { $0["check"]?.string == name })
    }
    return (try finding("http"), try finding("admin"))
  }

  @Test(.place(begun: true)) func `A service that runs is no fault and keeps its ports`() async throws {
    try await place.serve { running in
      let port = try #require(running.port(of: "public"))
      let (http, admin) = try await listeners(of: running, place, port: port)
      #expect(admin["status"] == "skipped")
      #expect(admin["detail"]?.string?.contains("serves already") == true)
      // Nobody would hold the port while it restarts.
      #expect(http["status"] == "warning", "\(http)")
      #expect(http["detail"]?.string?.contains("nothing holds port \(port) while it restarts") == true)
      #expect(http["advice"]?.string?.contains("systemctl enable push-bouncer") == true)
      let page = try await place.run(
        ["doctor", "--admin.port", "\(#require(running.port(of: "admin")))"] + Mistake.nowhere)
      #expect(page.output.contains("warning  http"), "\(page.output)")
      #expect(page.output.contains("found, and 4 warnings given."), "\(page.output)")
      // It has not been started a second time for that.
      #expect(try await running.call("admin", path: "/healthz").status == 200)
    }
  }

  @Test(.place(begun: true)) func `A token that is easy to guess starts with a warning`() async throws {
    try await place.serve("--admin.token", "hunter2") { running in
      let warnings = running.lines.filter { $0["level"] == "warning" }
      #expect(warnings.map { $0["check"] } == ["strength"], "\(warnings)")
      #expect(warnings.first?["message"]?.string?.hasPrefix("admin.token is too easy to guess") == true)
      #expect(!running.logged.contains("hunter2"))
    }
    let doctor = try await place.run(["doctor", "--json", "--admin.token", "hunter2"] + Mistake.ports([]))
    let findings = try doctor.json["findings"]?.elements ?? []
    let finding = try #require(findings.first { $0["check"] == "strength" })
    #expect(finding["status"] == "warning" && finding["advice"] != JSON.null, "\(doctor.output)")
  }

  @Test func `Doctor knows a port that is held for a service that runs`() async throws {
    let held = try HeldSocket()
    try await Workplace.test(begun: true) { place in
      try await place.serve([], through: HeldSocket.launcher(), input: held.handle) { running in
        var http = try await listeners(of: running, place, port: held.port).http
        #expect(http["status"] == "ok", "\(http)")
        #expect(http["detail"]?.string?.contains("systemd holds 127.0.0.1:\(held.port)") == true, "\(http)")
        // Settings that were changed since: it would not start with them.
        http = try await listeners(of: running, place, port: 443).http
        let words = "http.port names port 443 of 127.0.0.1, but systemd holds 127.0.0.1:\(held.port) for it"
        #expect(http["status"] == "fault" && http["detail"]?.string == words, "\(http)")
      }
    }
  }

  @Test(.place(begun: true)) func `Doctor examines what its options name, and says what serves with others`()
    async throws
  {
    let options = [
      "--server.name", "Ours", "--backend.token", "hunter2-hunter2-x", "--admin.token", "hunter2-hunter2-y",
    ]
    try await place.serve(options + Mistake.nowhere) { running in
      let port = try ["--admin.port", "\(#require(running.port(of: "admin")))"]
      func findings(_ arguments: [String]) async throws -> [JSON] {
        let doctor = try await place.run(["doctor", "--json"] + port + arguments)
        #expect(!doctor.output.contains("hunter2"))
        return try doctor.json["findings"]?.elements ?? []
      }
      // No token is needed.
      var found = try await findings(Mistake.nowhere)
      let service = try #require(found.first { $0["check"] == "service" }, "\(found)")
      #expect(
        service["status"] == "warning" && service["detail"]?.string?.contains("server.name Ours") == true)
      #expect(found.first { $0["check"] == "admin" }?["status"] == "skipped")

      found = try await findings(["--database.url", "sqlite:elsewhere.sqlite"] + Mistake.nowhere)
      let database = found.first { $0["check"] == "database" }?["detail"]?.string
      #expect(database?.hasPrefix("sqlite:elsewhere.sqlite is ") == true, "\(found)")

      found = try await findings(["--http.port", "0", "--log.format", "json"] + options + Mistake.nowhere)
      #expect(!found.contains { $0["check"] == "service" }, "\(found)")
    }
  }

  @Test(.place(begun: true)) func `An expired certificate lets the service start, and every place says so`()
    async throws
  {
    let pair = try TestCertificate.makePEM(end: Date() - 60)
    try place.write("c.pem", pair.certificate)
    try place.write("k.pem", pair.key)
    let files = ["--http.tls.certificate_file", "c.pem", "--http.tls.key_file", "k.pem"]
    try await place.serve(files) { running in
      await eventually("a line in the log") { running.lines.contains { $0["level"] == "error" } }
      let line = try #require(running.lines.first { $0["level"] == "error" })
      #expect(line["message"]?.string?.hasPrefix("the certificate expired on ") == true, "\(line)")
      #expect(line["file"] == "c.pem" && line["advice"]?.string?.hasPrefix("renew it") == true, "\(line)")
      let ready = try await running.call("admin", path: "/readyz")
      #expect(ready.status == 200 && ready.json["status"] == "degraded")
      let check = ready.json["checks"]?["certificate"]
      #expect(check?["status"] == "failing", "\(ready.json)")
      #expect(check?["meaning"]?.string?.contains("no chat server and no app connects") == true)
      let page = try await running.call("admin", path: "/admin").text
      #expect(page.contains("the certificate expired on ") && !page.contains("everything works"), "\(page)")
      let doctor = try await place.run(["doctor"] + Mistake.ports([]) + files)
      let findings = doctor.output.split(separator: "\n").filter { $0.contains(" tls ") }
      #expect(
        findings.count == 1 && findings[0].contains("FAULT") && findings[0].contains("c.pem expired on"))
    }
  }

  @Test(
    .place(begun: true),
    arguments: [
      (["migrate", "zulip", "--from", "nowhere"], "--from: there is no folder nowhere"),
      (["migrate", "zulip", "--from", "empty"], "has no file zilencer_remotezulipserver.csv"),
      (["migrate", "zulip", "--from", "csv"], "zilencer_remotezulipserver.csv, line 1: there is no column"),
      (
        ["migrate", "zulip", "--from", "postgres://u:hunter2@127.0.0.1:1/z"],
        "--from names postgres://127.0.0.1:1/z"
      ),
      (
        ["migrate", "zulip", "--from", "postgres://u:hunter2@127.0.0.1:1/z", "--rejects", "no/such"],
        "--rejects names no/such"
      ),
      (
        [
          "simulate", "--apns-port", "0", "--fcm-port", "0", "--webpush-port", "0", "--keys-out",
          "push-bouncer.yaml",
        ],
        "Not a directory"
      ),
      (["keys", "import", "--zulip-secrets", "nowhere.conf"], "nowhere.conf"),
      (["init", "--config", "no/such/x.yaml"], "no/such"),
      (
        ["copy", "--from", "sqlite:push-bouncer.yaml", "--to", "sqlite:b.sqlite"],
        "--from names sqlite:push-bouncer.yaml"
      ),
    ])
  func `Commands say what is wrong in words of our own`(_ arguments: [String], _ says: String) async throws {
    try place.write("empty/.keep", "")
    for table in ["remotezulipserver", "remoterealm", "remotepushdevice", "remotepushdevicetoken"] {
      try place.write("csv/zilencer_\(table).csv", "id,uuid\n")
    }
    let result = try await place.run(arguments)
    #expect(result.status == 1)
    #expect(result.errors.contains(says), "\(result.errors)")
    for foreign in Mistake.foreign + ["hunter2"] {
      #expect(!result.errors.contains(foreign), "\(result.errors)")
    }
  }

  @Test(.place(), arguments: ["--apns-port", "--fcm-port", "--webpush-port"])
  func `A simulator's port that is taken is named`(
    _ option: String
  ) async throws {
    let taken = try HeldSocket()
    let ports = ["--apns-port", "--fcm-port", "--webpush-port"].flatMap {
      [$0, $0 == option ? "\(taken.port)" : "0"]
    }
    let result = try await place.run(["simulate", "--keys-out", "k"] + ports)
    #expect(result.status == 1)
    #expect(result.errors.contains("\(option) names port \(taken.port)"), "\(result.errors)")
  }

  @Test(.place(), arguments: ["| head -1 >/dev/null", "| true", ">/dev/full", ">&-"])
  func `Output that nobody takes ends the program without a crash`(_ redirection: String) async throws {
    for arguments in [
      "settings", "--help", "doctor --json --http.port 0 --admin.port 0 --set fcm.endpoint=",
    ] {
      let script = "\(Workplace.executable.path) \(arguments) \(redirection); echo ${PIPESTATUS[0]} >status"
      let process = Process()
      process.executableURL = URL(filePath: "/bin/bash")
      process.arguments = ["-c", script]
      process.currentDirectoryURL = place.folder
      let errors = Pipe()
      process.standardError = errors
      try process.run()
      let said = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
      process.waitUntilExit()
      let status = try place.text(of: "status").trimmingCharacters(in: .whitespacesAndNewlines)
      // 141: the pipe was closed, as for any program.
      #expect(["0", "1", "141"].contains(status), "\(arguments): \(status)")
      #expect(!said.contains("Fatal") && said.split(separator: "\n").count <= 1, "\(said)")
    }
  }
}

/// A mistake, and the message that it must lead to.
struct Mistake: Sendable, CustomTestStringConvertible {
  let name: String
  var testDescription: String { name }
  var arguments: [String] = []
  var says: [String]
  /// A command that runs the one that follows it: as a user who may do little, which only root can let it.
  var launcher: [String] = []
  /// The file that is given to root, and its mode.
  var closed: (path: String, mode: Int)?
  var make: @Sendable (Workplace) async throws -> Void = { _ in }

  static let nobody = ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

  func close(_ place: Workplace) throws {
    guard let closed else { return }
    let path = place.folder.appending(path: closed.path).path
    try #require(chown(path, 0, 0) == 0 && chmod(path, mode_t(closed.mode)) == 0)
  }

  /// Texts of libraries that must not appear in messages.
  static let foreign = [
    "errno", "Error Domain", "NSCocoa", "could not be completed", "libpq", "Is the server running",
    "connectionLost",
    "Fatal error", "bind:", "database is locked", "SQLITE", "file is not a database", "NIOSSL", "BoringSSL",
  ]

  /// Disables the check of the time over the network, which may be missing.
  static let nowhere = ["--fcm.endpoint", ""]

  static func ports(_ arguments: [String]) -> [String] {
    ["--http.port", "--admin.port"].filter { !arguments.contains($0) }.flatMap { [$0, "0"] } + nowhere
  }
}

extension Workplace {
  /// Gives everything in it to the user who may do little.
  func giveAway() throws {
    let names = [""] + ((try? FileManager.default.subpathsOfDirectory(atPath: folder.path)) ?? [])
    for name in names {
      try #require(chown(folder.appending(path: name).path, 65534, 65534) == 0)
    }
  }
}
