import Foundation
import Logging
import TestSupport
import Testing

@testable import Basics
@testable import Operator

/// Tests that malformed files of the largest permitted size are rejected quickly.
@Suite struct HostileFilesTests {
  private static let bytes = 1 << 20
  /// Seconds of CPU time, for a debug build; taken for characters, each of these takes minutes.
  private static let limit = 10.0

  @Test(
    arguments: HostileText.allCases,
    ["TEXT", "TEXT: 1", "http:\n  TEXT: 1\n  TEXTa: 2\n", "database: {url: [TEXT"])
  func `A configuration that is none is refused`(_ kind: HostileText, yaml: String) throws {
    let yaml = yaml.replacing("TEXT", with: kind.text(bytes: Self.bytes))
    try withTemporaryFolder { folder in
      try yaml.write(to: folder.appending(path: "push-bouncer.yaml"), atomically: false, encoding: .utf8)
      let seconds = cpuSeconds {
        let error = #expect(throws: Fault.self) {
          try Configuration.load(
            file: nil, environment: [:], overrides: [:], workingDirectory: folder.path)
        }
        #expect((error?.description.utf8.count ?? 0) < 2000)
      }
      #expect(seconds < Self.limit)
    }
  }

  @Test(arguments: HostileText.allCases)
  func `Keys that are none are named, and no others suffer`(_ kind: HostileText) throws {
    let text = kind.text(bytes: Self.bytes - 1000)
    let escaped = text.unicodeScalars.prefix(Self.bytes / 6 / 2 - 200).flatMap { Array(String($0).utf16) }
      .map { String(format: "\\u%04x", $0) }.joined()
    let key = "-----BEGIN PRIVATE KEY-----"
    let files = [
      "fcm/whole.json": text, "fcm/name.json": "{\"\(text)\":1,\"type\":\"service_account\"}",
      "fcm/escaped.json": "{\"\(escaped)\":1,\"a\(escaped)\":2,\"type\":\"service_account\"}",
      "fcm/type.json": "{\"type\":\"\(text)\"}",
      "fcm/key.json": """
      {"type":"service_account","project_id":"p","token_uri":"https://example.org/","private_key":\
      "\(key)\\n\(text.prefix(Self.bytes / 2))"}
      """,
      "apns/id.json": "{\"key_id\":\"\(text)\"}",
      "apns/pem.json": """
      {"key_file":"pem.p8","key_id":"ABCDE12345","team_id":"ABCDE12345","topics":["org.example.chat"],\
      "environment":"production"}
      """,
      "apns/pem.p8": "\(key)\n\(text)\n-----END PRIVATE KEY-----\n",
      "bouncer/a.json": "{\"public_key\":\"\(text)\"}",
    ]
    try withTemporaryFolder { folder in
      for (name, content) in files {
        let url = folder.appending(path: name)
        try FileManager.default.createDirectory(
          at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
        try content.write(to: url, atomically: false, encoding: .utf8)
      }
      var logger = Logger(label: "test")
      logger.logLevel = .critical
      let keys = KeyFolder(directory: folder.path, defaultProject: nil, logger: logger)
      let seconds = cpuSeconds {
        let problems = keys.load().problems
        #expect(Set(problems.map(\.file)) == Set(files.keys).subtracting(["apns/pem.p8"]))
        #expect(problems.allSatisfy { $0.message.utf8.count < 2000 })
      }
      #expect(seconds < Self.limit * Double(files.count))
    }
  }
}
