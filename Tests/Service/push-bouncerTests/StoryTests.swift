import Foundation
import HTTP
import TestSupport
import Testing

@testable import Demo

/// Tests the demo commands as a user runs them, on this machine.
@Suite(.serialized, .place()) struct StoryTests {
  private let place = Fixture<Workplace>.current

  @Test func `The demo plays to its end`() async throws {
    let result = try await place.run(
      "demo", environment: ["PUSH_BOUNCER_HTTP_PORT": "1", "TMPDIR": place.folder.path])
    #expect(result.status == 0, "\(result.errors)")
    #expect(result.output.hasSuffix("Every step happened.\n"))
    for step in [
      "encrypted_data", "decrypts", "valid again", "backend API", "device 1.", "each exactly once",
      "at the new token, where the next one goes too", "the Android phone and nobody else",
      "410 Gone", "The phone without Google decrypts", "another endpoint", "apns:simulator ok",
    ] {
      #expect(result.output.contains(step), "\(step)")
    }
    #expect(result.errors == "")
    // What it made is gone.
    #expect(try FileManager.default.contentsOfDirectory(atPath: place.folder.path) == [".logs"])
  }

  @Test func `The demo can be kept and what it invites to works`() async throws {
    try await place.start(["demo", "--keep"]) { running in
      func printed() -> String { (try? String(contentsOf: running.output, encoding: .utf8)) ?? "" }
      await eventually("the invitation") { printed().contains("/notifications\n") }
      let invitation = try #require(printed().split(separator: "until Ctrl-C").last)
      #expect(invitation.contains("an account             hamlet@example.org, API key "))
      #expect(invitation.contains("with Authorization: Bearer "))
      let command = try #require(invitation.firstMatch(of: /push-bouncer (device [^$]*--forget)/)?.1)
      let arguments = command.split(whereSeparator: \.isWhitespace).map(String.init).filter { $0 != "\\" }
      let phone = try await place.run(arguments + ["--test", "--count", "1", "--json"])
      #expect(phone.status == 0, "\(phone.errors)")
      #expect(try JSON.parse(phone.json["plaintext"]?.string ?? "")["type"] == "test")
      running.send(SIGINT)
      #expect(await running.status() == 0)
    }
  }

  @Test func `Simulator service and phone fit together`() async throws {
    try await place.start([
      "simulate", "--apns-port", "0", "--fcm-port", "0", "--webpush-port", "0", "--keys-out", "Keys",
      "--json",
    ]) {
      simulator in
      await eventually("the simulator") { simulator.printed != nil }
      let endpoints = try #require(simulator.printed)
      let apns = try #require(endpoints["apns_endpoint"]?.string)
      let fcm = try #require(endpoints["fcm_endpoint"]?.string)
      let webPush = try #require(endpoints["webpush_endpoint"]?.string)
      let providers = [
        "--apns.endpoint", apns, "--fcm.endpoint", fcm, "--providers.ca_file", "Keys/ca.pem",
        "--webpush.allow_private_hosts", "127.0.0.1", "--http.port", "0", "--admin.port", "0",
        "--operator.email", "operator@example.org",
      ]
      let key = try #require(try await place.run("init", "--json").json["public_key"]?.string)

      let doctor = try await place.run(["doctor", "--json"] + providers)
      #expect(doctor.status == 0, "\(doctor.output)")
      let findings = try doctor.json["findings"]?.elements ?? []
      #expect(findings.allSatisfy { $0["status"] != "fault" && $0["advice"] == .null })
      #expect(findings.contains { $0["check"] == "apns:simulator" })

      let server = try await place.run("server", "add", "--hostname", "chat.example.org", "--json").json
      try await place.serve(
        "--apns.endpoint", apns, "--fcm.endpoint", fcm, "--providers.ca_file", "Keys/ca.pem",
        "--webpush.allow_private_hosts", "127.0.0.1"
      ) { running in
        for kind in ["apns", "fcm", "webpush"] {
          let phone = try await place.run(
            "device", "--bouncer", running.url("public"), "--org-id", server["org_id"]?.string ?? "",
            "--org-key",
            server["org_key"]?.string ?? "", "--realm", "0b1f1bb4-6a5c-4e36-93d0-0f2a9d7a0c11",
            "--hostname",
            "chat.example.org", "--public-key", key, "--kind", kind, "--simulator", fcm,
            "--push-service", webPush, "--ca-file",
            "Keys/ca.pem",
            "--send", "Lunch?", "--rotate", "--count", "1", "--json")
          #expect(phone.status == 0, "\(phone.errors)")
          #expect(try phone.json["plaintext"]?.string?.contains("Lunch?") == true)
        }
        let ready = try await running.call("admin", path: "/readyz").json
        #expect(ready["status"] == "ready")
        #expect(ready["checks"]?["apns:simulator"] == ["status": "ok"])
        // A minute's housekeeping begins at the start.
        try await eventually("the count of registrations") {
          try await running.call("admin", path: "/metrics").text.contains("push_bouncer_registrations{")
        }
        await running.end()
      }
      simulator.send(SIGTERM)
      #expect(await simulator.status() == 0)
    }
  }

  @Test func `The doctor says what is wrong`() async throws {
    let text = try await place.run("doctor")
    #expect(text.status == 1)
    #expect(text.output.contains("FAULT    keys ") && text.output.contains("push-bouncer keys generate"))
    #expect(text.errors == "")
    #expect(!place.exists("Keys") && !place.exists("push-bouncer.sqlite"))

    let json = try await place.run("doctor", "--json", "--http.port", "x")
    #expect(json.status == 1)
    let findings = try json.json["findings"]?.elements ?? []
    #expect(findings.count == 2 && findings[1]["status"] == "skipped")
    #expect(findings[0]["check"] == "configuration")
    #expect(findings[0]["status"] == "fault")
    #expect(findings[0]["detail"]?.string?.contains("http.port") == true)
  }
}
