import Foundation
import TestSupport
import Testing

@testable import Operations

/// The table of settings: what it suggests, what its page says, and where a file stops being one.
@Suite struct SettingTests {
  private func load(
    yaml: String? = nil, environment: [String: String] = [:], overrides: [String: String] = [:]
  ) throws -> (Configuration, warnings: [String]) {
    try withTemporaryFolder { folder in
      if let yaml { try Data(yaml.utf8).write(to: folder.appending(path: "push-bouncer.yaml")) }
      return try Configuration.load(
        file: nil, environment: environment, overrides: overrides, workingDirectory: folder.path)
    }
  }

  @Test(
    arguments: [
      ("htpp.port", "http.port"), ("http.hots", "http.host"), ("database.ulr", "database.url"),
      ("bouncer.allowed_hosts", "bouncer.allowed_hostnames"), ("port", nil), ("bananas", nil),
      (String(repeating: "x", count: 1 << 16), nil),
    ] as [(String, String?)])
  func `The key that was meant is suggested`(_ key: String, _ meant: String?) throws {
    #expect(Setting.nearest(to: key) == meant)
  }

  @Test(
    arguments: [
      ("http:\n  port: [80\nlog:\n  level: info\n", 3, "after log: a bracket is not closed"),
      ("http:\n  host: \"127.0.0.1\n  port: 80\n", 4, "after http.port: a quote or a bracket is not closed"),
      ("http:\n\tport: 80\n", 2, "after http: a tab is no YAML"),
      ("http:\n  host: a: b\n", 2, "after http.host: a colon stands in a value"),
      ("http:\n  host: a\n   port: 80\n", 3, "after http.host: a colon stands in a value"),
      ("http.port: 1\nhttp.port: 2\n", 1, "http.port is there twice"),
      ("http.port: 1\n---\nhttp.port: 2\n", 2, "after http.port: a second document begins"),
      ("hunter2: *x\n", 1, "an alias stands for nothing"),
      ("hunter2: [\n", 2, "the line is no YAML"),
    ])
  func `A broken line is told by its number its setting and what is wrong`(
    _ yaml: String, _ line: Int, _ problem: String
  ) throws {
    let error = try #require(throws: Fault.self) { try load(yaml: yaml) }
    #expect(error.source?.hasSuffix("/push-bouncer.yaml, line \(line)") == true, "\(error)")
    #expect(error.description.contains(problem), "\(error)")
    #expect(error.advice != nil && !error.description.contains("hunter2"))
  }

  @Test func `The reference is the table of settings`() throws {
    let file = URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "../../Documentation/Configuration.md")
    let text = try String(contentsOf: file, encoding: .utf8)
    // Not compared by the macro, which would print both.
    let isCurrent = text == Configuration.reference() + "\n"
    #expect(isCurrent, "the table has changed; renew the page: \(Configuration.referenceCommand)")
    for key in Configuration.keys { #expect(text.contains("| `\(key)`<br>"), "\(key)") }
  }

  @Test func `Examples are values`() throws {
    for setting in Setting.all where !setting.shape.example.contains("`") {
      let more = [
        "server.org_id": "i", "server.org_key": "k", "http.tls.certificate_file": "a.pem",
        "http.tls.key_file": "b.pem",
      ]
      _ = try load(overrides: more.merging([setting.key: setting.shape.example]) { $1 })
    }
  }
}
