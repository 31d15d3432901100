import Foundation
import Operations
import TestSupport
import Testing

/// What push services are told of the operator, and which of them may have private addresses.
@Suite struct WebPushSettingsTests {
  private func load(_ overrides: [String: String]) throws -> Configuration.WebPush {
    try withTemporaryFolder { folder in
      try Configuration.load(
        file: nil, environment: [:], overrides: overrides, workingDirectory: folder.path
      ).0.webPush
    }
  }

  @Test(
    arguments: [
      (["webpush.contact": "mailto:push@example.org"], "mailto:push@example.org"),
      (["webpush.contact": "https://example.org/push"], "https://example.org/push"),
      (
        ["webpush.contact": "https://example.org/push", "operator.email": "a@example.org"],
        "https://example.org/push"
      ),
      (
        ["operator.email": "a@example.org", "http.public_url": "https://b.example.org"],
        "mailto:a@example.org"
      ), (["http.public_url": "https://push.example.org:8443"], "https://push.example.org:8443"),
      (
        ["operator.email": "Jane <a@example.org>", "http.public_url": "https://b.example.org"],
        "https://b.example.org"
      ),
      ([:], nil), (["operator.email": "the operator"], nil),
      (["http.public_url": "http://127.0.0.1:8080"], nil),
      (["http.public_url": "https://127.0.0.1:8080"], nil), (["http.public_url": "https://localhost"], nil),
      (["http.public_url": "https://[::1]:8080"], nil), (["http.public_url": "http://push.example.org"], nil),
    ] as [([String: String], String?)])
  func `The contact is the first that push services take`(
    _ settings: [String: String], _ contact: String?
  ) throws {
    let webPush = try load(settings)
    #expect(webPush.contact == contact ?? "mailto:nobody@push-bouncer.invalid")
    #expect(webPush.namesContact == (contact != nil))
  }

  @Test func `Private hosts have one spelling`() throws {
    let text = "NTFY.lan., b\u{fc}cher.example, ntfy, 10.0.0.7, [FD00::0:1], fd00::2, ntfy.example.org:443"
    let webPush = try load(["webpush.allow_private_hosts": text])
    #expect(
      webPush.privateHosts == [
        "ntfy.lan", "xn--bcher-kva.example", "ntfy", "10.0.0.7", "fd00::1", "fd00::2", "ntfy.example.org",
      ])
  }

  @Test func `Web Push is switched on unless somebody has switched it off`() throws {
    let standard = try load([:])
    #expect(standard.isEnabled)
    #expect(standard.privateHosts == [])
    #expect(try load(["webpush.enabled": "false"]).isEnabled == false)
  }
}
