import Foundation
import HTTP
import HTTPTypes
import TestSupport
import Testing

@testable import NextcloudServer

/// What apps send to subscribe: `Documentation/Protocols/Nextcloud.md` 5.6.
@Suite struct SubscriptionParametersTests {
  private func test(
    _ settings: [String: String] = [:], _ test: @escaping @Sendable (Instance) async throws -> Void
  ) async throws {
    try await Instance.test(Instance.localPushServices.merging(settings) { $1 }, test)
  }

  @Test func `the first thing that is wrong is told, and nothing is kept`() async throws {
    try await test { instance in
      let app = try await instance.user()
      let good = Browser(app).form()
      let keys = good[1].1
      // A point has to be on the curve.
      let off = "BAEB" + String(repeating: "AQEB", count: 20) + "AQE"
      let compressed = "A" + keys.dropFirst().prefix(43)
      let long = "https://127.0.0.1/" + String(repeating: "a", count: 748)
      let cases: [(field: Int, values: [String], code: String)] = [
        (3, [String(repeating: "a", count: 257), String(repeating: "ü", count: 129)], "TOO_MANY_APP_TYPES"),
        (
          0,
          [
            "", long, "HTTPS://127.0.0.1/push", "http://127.0.0.1/push", "ftp://127.0.0.1/push", "https://",
            "push.example.org",
            "https:///x",
            "https://a:b@127.0.0.1/x", "https://a@127.0.0.1/x", "https://127.0.0.1/x#y",
            "https://127.0.0.1:0/",
            "https://127.0.0.1:65536/", "https://127.0.0.1/a b", "https://127.0.0.1/ü",
            "https://127.0.0.1/\n",
            "https://10.0.0.1/x", "https://[::1]/x", "https://localhost/x", "https://ntfy.local/x",
            "https://127.0.0.2/x", "https://0x7f000001/", "https://2130706433/",
          ], "INVALID_ENDPOINT"
        ),
        (
          2,
          [
            "", "AAAA", String(repeating: "A", count: 21), String(repeating: "A", count: 23),
            "AAAAAAAAAAAAAAAAAAAA+A",
            "AAAAAAAAAAAAAAAAAAAAAA=", "AAAAAAAAAAAAAAAAAAAAAA===", "AAAAAAAAAAA=AAAAAAAAAAA",
          ], "INVALID_AUTH"
        ),
        (
          1,
          [
            "", off, compressed, String(keys.dropLast()), keys + "A", keys + "==", keys + "===",
            "+" + keys.dropFirst(),
            "A" + keys.dropFirst(),
          ], "INVALID_P256DH"
        ),
      ]
      var form = good
      // What was wrong before stays wrong, and is told only after what stands before it.
      for (field, values, code) in cases {
        for value in values {
          form[field].1 = value
          let answer = try await app.call(.post, Browser.path, form)
          #expect((answer.status, answer.code) == (400, code), "\(value)")
          var alone = good
          alone[field].1 = value
          #expect(try await app.call(.post, Browser.path, alone).code == code, "\(value)")
        }
      }
      #expect(try await app.call(.post, Browser.path, []).code == "INVALID_P256DH")
      #expect(try await instance.counts() == [0, 0])
      #expect(try await app.call(.post, Browser.path, good).status == 201)
    }
  }

  @Test(arguments: ["all\u{0}", "\u{0}", "all\(String(repeating: "\u{301}", count: 31))"])
  func `apps that are no text that can be kept are refused`(_ appTypes: String) async throws {
    try await test { instance in
      let browser = Browser(try await instance.user())
      let answer = try await browser.subscribe(appTypes: appTypes)
      #expect(answer.status == 400 && answer.code == "INVALID_APP_TYPES")
      #expect(try await instance.counts() == [0, 0])
    }
  }

  @Test func `hostile bodies are refused, and never an error of ours`() async throws {
    try await test { instance in
      let app = try await instance.user()
      let good = Dictionary(uniqueKeysWithValues: Browser(app).form())
      let values = [
        "null", "7", "true", "[]", "{}", "[\"x\"]", "\"\\u0000\"", "\"\\ud800\"",
        "\"\(String(repeating: "a\\u0301", count: 9_000))\"",
      ]
      for name in good.keys {
        for value in values {
          let members = good.map { "\"\($0)\":\($0 == name ? value : "\"\($1)\"")" }
          let answer = try await app.call(.post, Browser.path, json: "{\(members.joined(separator: ","))}")
          #expect(
            (400..<500).contains(answer.status) || name == "appTypes" && answer.status == 201,
            "\(name) \(value)")
        }
      }
      for value in values {
        let answer = try await app.call(
          .post, "\(Browser.path)/activate", json: "{\"activationToken\":\(value)}")
        #expect((400..<500).contains(answer.status), "\(value)")
      }
      for body in ["", "{", "[]", String(repeating: "[", count: 100_000)] {
        let answer = try await app.call(.post, Browser.path, json: body)
        #expect((400..<500).contains(answer.status))
      }
    }
  }
}
