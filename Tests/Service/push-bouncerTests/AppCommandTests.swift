import Foundation
import HTTP
import Testing

@Suite struct AppCommandTests {
  /// The key in `lib/model/push_device.dart` of a checkout that has nothing else.
  private func check(_ place: Workplace, key: String, _ options: String...) async throws -> Workplace.Result {
    try place.write(
      "chat/lib/model/push_device.dart", "  static final bouncerPublicKey = base64Decode('\(key)');\n")
    return try await place.run(["app", "check", "chat"] + options)
  }

  /// Talk for Android, with a proxy of one's own.
  private func writeTalk(_ place: Workplace, proxy: String = "https://push.example.org") throws {
    try place.write(
      "talk/app/build.gradle.kts", "android { defaultConfig { applicationId = \"org.example.talk\" } }\n")
    try place.write(
      "talk/app/src/main/java/com/nextcloud/talk/ApiUtils.kt",
      "val userAgent = \"Mozilla/5.0 (Android) Nextcloud-Talk v\"\n")
    try place.write(
      "talk/app/src/main/AndroidManifest.xml",
      """
      <manifest xmlns:android="http://schemas.android.com/apk/res/android"><application>
        <service android:name=".Push"><action android:name="com.google.firebase.MESSAGING_EVENT"/></service>
      </application></manifest>
      """)
    try place.write(
      "talk/app/src/main/res/values/setup.xml",
      """
      <resources>
        <string name="nc_push_server_url">\(proxy)</string>
        <string name="project_id">example-chat</string>
        <string name="gcm_defaultSenderId">1234</string>
        <string name="google_app_id">1:1234:android:0123456789abcdef</string>
        <string name="google_api_key">AIzaSyExampleExampleExampleExampleExamp</string>
      </resources>
      """)
  }

  @Test func `An app that fits exits 0, and one of which something could not be checked does not`()
    async throws
  {
    try await Workplace.test(begun: true) { place in
      let address = ["--http.public_url", "https://push.example.org"]
      try writeTalk(place)
      let good = try await place.run(["app", "check", "talk"] + address)
      #expect(good.status == 0, "\(good)")
      try writeTalk(place, proxy: "@string/other")
      #expect(try await place.run(["app", "check", "talk"] + address).status == 1)
      try writeTalk(place)
      try place.write("talk/app/build.gradle.kts", "android { defaultConfig { applicationId = id() } }\n")
      let skipped = try await place.run(["app", "check", "talk"] + address)
      #expect(skipped.status == 1)
      #expect(skipped.output.hasSuffix("1 value could not be checked: applicationId.\n"), "\(skipped)")
      let counts = try await place.run(["app", "check", "talk", "--json"] + address).json["counts"]
      #expect(counts?["skipped"] == 1)
      #expect(counts?["faults"] == 0)
    }
  }

  @Test
  func `What an app must fit is written without a secret, and compared with where nothing is configured`()
    async throws
  {
    try await Workplace.test(begun: true) { service in
      try service.write(
        "apps.json",
        #"[{"name": "Own", "user_agent": "\\(Android\\) Nextcloud-Talk", "kind": "talk", "platform": "android", "fcm_project": "example-chat"}]"#
      )
      let expected = try await service.run(
        "app", "expect", "--http.public_url", "https://push.example.org", "--nextcloud.apps_file", "apps.json"
      )
      #expect(expected.status == 0, "\(expected)")
      #expect(!expected.output.contains("PRIVATE"))
      #expect(try expected.json["bouncer_keys"]?.elements.first?["state"] == "active")
      #expect(try expected.json["apps"]?.elements.first?["user_agent"] == #"\(Android\) Nextcloud-Talk"#)
      try await Workplace.test { place in
        try writeTalk(place)
        let nothing = try await place.run("app", "check", "talk")
        #expect(nothing.status == 1)
        #expect(nothing.errors.contains("there is no configuration"), "\(nothing)")
        #expect(!nothing.errors.contains("keys generate"))
        try place.write("expected.json", expected.output)
        let result = try await place.run("app", "check", "talk", "--against", "expected.json")
        #expect(result.status == 0, "\(result)")
        #expect(result.output.contains("the proxy knows it as Own"))
        try writeTalk(place, proxy: "https://push-notifications.nextcloud.com")
        let fault = try await place.run("app", "check", "talk", "--against", "expected.json")
        #expect(fault.status == 1)
        #expect(fault.output.contains("must be: https://push.example.org,"))
        for text in ["", "{}", "[]", #"{"bouncer_keys": 1}"#] {
          try place.write("broken.json", text)
          let broken = try await place.run("app", "check", "talk", "--against", "broken.json")
          #expect(broken.status == 1)
          #expect(broken.errors.contains("broken.json"), "\(broken)")
          #expect(broken.errors.contains("push-bouncer app expect"))
        }
      }
    }
  }

  /// The configuration, the keys, or a folder on the way to these.
  @Test(
    .enabled(if: geteuid() == 0 && FileManager.default.fileExists(atPath: Mistake.nobody[0])),
    arguments: [
      ("push-bouncer.yaml", 0o640, []), ("push-bouncer.yaml", 0o640, ["--config", "push-bouncer.yaml"]),
      ("Keys", 0o700, []), ("closed", 0o700, ["--keys.directory", "closed/Keys"]),
    ] as [(String, Int, [String])])
  func `Who may not read what the app is compared with hears how else to compare it`(
    _ closed: String, _ mode: Int, _ options: [String]
  ) async throws {
    try await Workplace.test(begun: true) { place in
      try writeTalk(place)
      try place.write("closed/Keys/README.md", "")
      if closed == "push-bouncer.yaml" {
        try FileManager.default.moveItem(
          at: place.folder.appending(path: "Keys"), to: place.folder.appending(path: "elsewhere"))
      }
      try place.giveAway()
      let path = place.folder.appending(path: closed).path
      try #require(chown(path, 0, 0) == 0 && chmod(path, mode_t(mode)) == 0)
      let result = try await place.run(["app", "check", "talk"] + options, through: Mistake.nobody)
      #expect(result.status == 1)
      for text in [closed, "push-bouncer app expect", "--against"] {
        #expect(result.errors.contains(text), "\(result)")
      }
      #expect(result.output.isEmpty, "\(result)")
    }
  }

  @Test func `An app with this bouncer's key fits`() async throws {
    try await Workplace.test(begun: true) { place in
      let keys = try await place.run("keys", "list", "--json").json["keys"]
      guard case .array(let keys)? = keys, let key = keys.first?["public_key"]?.string else {
        Issue.record("there is no key")
        return
      }
      let result = try await check(place, key: key)
      // Nothing else is there.
      #expect(result.status == 1)
      #expect(result.output.contains("lib/model/push_device.dart:1: \(key): an active key of this bouncer"))
      #expect(result.output.contains("not found where it was: lib/firebase_options.dart") == false)
      #expect(result.output.contains("kFirebaseOptionsAndroid.projectId in lib/firebase_options.dart"))
      #expect(result.output.contains("No fault was found.\n"))
      #expect(result.output.contains(" values could not be checked: bundle id, "))
    }
  }

  @Test func `A fault names place value remedy and effect and ends with 1`() async throws {
    try await Workplace.test(begun: true) { place in
      let vendors = "mm4F/3WLqECY637NulC5j/ZeHkmpwmtlfIxwt8MfREM="
      let result = try await check(place, key: vendors, "--json")
      #expect(result.status == 1)
      guard case .array(let findings)? = try result.json["findings"] else {
        Issue.record("no findings in \(result.output)")
        return
      }
      let finding = try #require(findings.first { $0["status"] == "fault" })
      #expect(finding["check"] == "bouncer key")
      #expect(finding["file"] == "lib/model/push_device.dart")
      #expect(finding["line"] == 1)
      #expect(finding["found"]?.string?.hasPrefix(vendors) == true)
      #expect(finding["expected"]?.string?.count == 44)
      #expect(finding["effect"]?.string?.contains("gets no notification") == true)
    }
  }

  @Test func `A build pipeline gets annotations or SARIF, and an error as JSON`() async throws {
    try await Workplace.test(begun: true) { place in
      try writeTalk(place, proxy: "https://push-notifications.nextcloud.com")
      func run(_ options: String...) async throws -> Workplace.Result {
        try await place.run(
          ["app", "check", "talk", "--http.public_url", "https://push.example.org"] + options)
      }
      let github = try await run("--format", "github")
      #expect(github.status == 1)
      let lines = github.output.split(separator: "\n")
      // There is no service account here.
      #expect(lines.map { $0.prefix(9) } == ["::error f", "::warning"])
      #expect(
        lines.first?.hasPrefix(
          "::error file=talk/app/src/main/res/values/setup.xml,line=2,title=push proxy::https://push-notifications.nextcloud.com: "
            + "the vendor's own%0Amust be: https://push.example.org, without a slash at its end%0Aor else: ")
          == true,
        "\(github)")
      let sarif = try await run("--format", "sarif").json
      let result = sarif["runs"]?.elements.first?["results"]?.elements.first
      #expect(sarif["version"] == "2.1.0")
      #expect(result?["ruleId"] == "push-proxy")
      let place = result?["locations"]?.elements.first?["physicalLocation"]
      #expect(place?["artifactLocation"]?["uri"] == "talk/app/src/main/res/values/setup.xml")
      #expect(place?["region"]?["startLine"] == 2)
      #expect(try await run("--format", "sarif", "--json").status == 64)
      let json = try await run("--json").json
      #expect(json["error"] == .null)
      #expect(json["findings"]?.elements.first { $0["status"] == "fault" }?["remark"] == "the vendor's own")
      let error = try await run("--flavor", "none", "--json")
      #expect(error.status == 1)
      #expect(try error.json["error"]?["message"]?.string?.contains("no flavour") == true)
      #expect(try error.json["findings"] == [])
    }
  }

  @Test func `What is no app is an error that says what to give`() async throws {
    try await Workplace.test(begun: true) { place in
      for path in ["Keys", "push-bouncer.yaml", "nowhere"] {
        let result = try await place.run("app", "check", path)
        #expect(result.status == 1)
        #expect(result.errors.contains(path))
        #expect(result.output.isEmpty)
      }
    }
  }
}
