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

  @Test func `An app with this bouncer's key fits`() async throws {
    try await Workplace.test(begun: true) { place in
      let keys = try await place.run("keys", "list", "--json").json["keys"]
      guard case .array(let keys)? = keys, let key = keys.first?["public_key"]?.string else {
        Issue.record("there is no key")
        return
      }
      let result = try await check(place, key: key)
      #expect(result.status == 0)
      #expect(result.output.contains("lib/model/push_device.dart:1: \(key): an active key of this bouncer"))
      #expect(result.output.contains("not found where it was: lib/firebase_options.dart") == false)
      #expect(result.output.contains("kFirebaseOptionsAndroid in lib/firebase_options.dart"))
      #expect(result.output.hasSuffix("No fault was found.\n"))
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
      let finding = try #require(findings.first { $0["standing"] == "fault" })
      #expect(finding["check"] == "bouncer key")
      #expect(finding["file"] == "lib/model/push_device.dart")
      #expect(finding["line"] == 1)
      #expect(finding["found"]?.string?.hasPrefix(vendors) == true)
      #expect(finding["expected"]?.string?.count == 44)
      #expect(finding["effect"]?.string?.contains("gets no notification") == true)
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
