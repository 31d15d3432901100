import Crypto
import Foundation
import TestSupport
import Testing

@testable import HTTPClient
@testable import Providers

@Suite("A Web Push subscription")
struct WebPushSubscriptionTests {
  private static let phone = WebPushPhone()
  private static let key = phone.publicKey
  private static let secret = phone.auth

  private static func token(_ json: String) -> String { "webpush:" + WebPushPhone.base64URL(Data(json.utf8)) }

  @Test(arguments: [
    ("https://push.example.net/1", "push.example.net", 443, "push.example.net", "/1"),
    ("https://Push.Example.NET/a?b=c&d=%20", "push.example.net", 443, "push.example.net", "/a?b=c&d=%20"),
    ("https://push.example.net.:443", "push.example.net", 443, "push.example.net", "/"),
    ("https://ntfy.example.org:8443/up?x=1", "ntfy.example.org", 8443, "ntfy.example.org:8443", "/up?x=1"),
    ("https://ntfy.example.org:/up", "ntfy.example.org", 443, "ntfy.example.org", "/up"),
    ("https://ntfy.example.org?up=1", "ntfy.example.org", 443, "ntfy.example.org", "/?up=1"),
    (
      "https://fcm.googleapis.com/fcm/send/dGhpcyBpc-A:APA91bHPRgkF_3JUikC4Es-x9", "fcm.googleapis.com", 443,
      "fcm.googleapis.com", "/fcm/send/dGhpcyBpc-A:APA91bHPRgkF_3JUikC4Es-x9"
    ),
    (
      "https://fcm.googleapis.com/wp/dGhpcyBpc-A:APA91bHPRgkF", "fcm.googleapis.com", 443,
      "fcm.googleapis.com",
      "/wp/dGhpcyBpc-A:APA91bHPRgkF"
    ),
    ("https://[2001:DB8:0::1]:8443/1", "2001:db8::1", 8443, "[2001:db8::1]:8443", "/1"),
    ("https://192.168.0.5/1", "192.168.0.5", 443, "192.168.0.5", "/1"),
    ("https://xn--bcher-kva.example/@x", "xn--bcher-kva.example", 443, "xn--bcher-kva.example", "/@x"),
  ])
  func `has an https URL, whose origin is canonical`(
    url: String, host: String, port: Int, authority: String, path: String
  ) throws {
    let endpoint = try #require(WebPushEndpoint(url))
    #expect(endpoint.url == url)
    #expect((endpoint.host, endpoint.port) == (host, port))
    #expect(endpoint.authority == authority)
    #expect(endpoint.origin == "https://\(authority)")
    #expect(endpoint.path == path)
  }

  @Test(arguments: [
    "", "https://", "https:///1", "HTTPS://push.example.net/1", "http://push.example.net/1",
    "push.example.net/1",
    "ftp://push.example.net/",
    "https://user@push.example.net/1", "https://user:password@push.example.net/1",
    "https://push.example.net/#1",
    "https://push.example.net/ 1", "https://push.example.net/\u{e4}", "https://b\u{fc}cher.example/1",
    "https://push.example.net\\@other.example/1", "https://push.example.net:0/",
    "https://push.example.net:65536/",
    "https://push.example.net:-1/", "https://push.example.net:4 43/", "https://push.example.net:443:443/",
    "https://push..example.net/", "https://.example.net/", "https://push.example.net../", "https://./",
    "https://[::1/", "https://[::1::2]/", "https://[127.0.0.1]/", "https://::1]/",
    "https://[push.example.net]/", "https://[::1]x/",
    "https://[fe80::1%25lo]/",
    "https://push.example.net/\n", "https://push.example.net/\r\nhost: x", "https://push example.net/",
    "https://push.example.net/{}", "https://\(String(repeating: "a", count: 64)).example/",
  ])
  func `is refused with any other URL`(url: String) {
    #expect(WebPushEndpoint(url) == nil)
    #expect(throws: WebPushSubscription.Malformed.endpoint) {
      try WebPushSubscription(endpoint: url, p256dh: Self.key, auth: Self.secret)
    }
  }

  @Test func `has a URL of 765 bytes at most`() {
    let url = "https://push.example.net/"
    #expect(WebPushEndpoint(url + String(repeating: "a", count: 765 - url.utf8.count)) != nil)
    #expect(WebPushEndpoint(url + String(repeating: "a", count: 766 - url.utf8.count)) == nil)
  }

  @Test func `has a point on the curve for a key`() {
    let point = Self.phone.key.publicKey.x963Representation
    var off = point
    off[64] ^= 1
    let zero = Data([4]) + Data(count: 64)
    for bytes in [
      off, zero, point.dropLast(), point + [0], Self.phone.key.publicKey.compressedRepresentation,
      point.dropFirst(), Data([5]) + point.dropFirst(), Data(),
    ] {
      #expect(throws: WebPushSubscription.Malformed.publicKey, "\(WebPushPhone.base64URL(bytes))") {
        try WebPushSubscription(
          endpoint: "https://push.example.net/", p256dh: WebPushPhone.base64URL(bytes), auth: Self.secret)
      }
    }
  }

  @Test(arguments: [0, 1, 12, 15, 17, 32]) func `has a secret of 16 bytes`(count: Int) {
    #expect(throws: WebPushSubscription.Malformed.secret) {
      try WebPushSubscription(
        endpoint: "https://push.example.net/", p256dh: Self.key,
        auth: WebPushPhone.base64URL(Data(count: count)))
    }
  }

  @Test func `may be padded, and is in base64url`() throws {
    let plain = try WebPushSubscription(
      endpoint: "https://push.example.net/", p256dh: Self.key, auth: Self.secret)
    let padded = try WebPushSubscription(
      endpoint: "https://push.example.net/", p256dh: Self.key + "=", auth: Self.secret + "==")
    #expect(plain == padded)
    for secret in [
      Self.secret + "=", Self.secret + "===", "AAAAAAAAAAAAAAAAAAA+/w", "AAAA AAAAAAAAAAAAAAAAA", "é",
    ] {
      #expect(throws: WebPushSubscription.Malformed.secret) {
        try WebPushSubscription(endpoint: "https://push.example.net/", p256dh: Self.key, auth: secret)
      }
    }
  }

  @Test func `is a push token and comes back from it`() throws {
    let subscription = try Self.phone.subscription(
      "https://push.example.net/a?b=\"".replacing("\"", with: "1"))
    #expect(WebPushSubscription.isToken(subscription.token))
    #expect(try WebPushSubscription(token: subscription.token) == subscription)
    let spelled = Self.token(
      #"{"auth":"\#(Self.secret)==", "p256dh":"\#(Self.key)", "expirationTime":null, "endpoint":"https:\/\/push.example.net\/a?b=1"}"#
    )
    #expect(try WebPushSubscription(token: spelled) == subscription)
    #expect(try WebPushSubscription(token: spelled).token == spelled)
  }

  @Test func `is no token unless it says what it is made of`() {
    let tokens = [
      "", "webpush:", "webpush:{}", "webpush:!!!!", Self.token("{}"), Self.token("[]"), Self.token("null"),
      Self.token(#"{"endpoint":"https://push.example.net/","p256dh":"\#(Self.key)"}"#),
      Self.token(#"{"endpoint":1,"p256dh":"\#(Self.key)","auth":"\#(Self.secret)"}"#),
      Self.token(String(repeating: "[", count: 1500)), Self.token(String(repeating: " ", count: 2000)),
      "WEBPUSH:" + Self.token("{}").dropFirst(8), "fcm-token:webpush:",
    ]
    for token in tokens {
      #expect(throws: WebPushSubscription.Malformed.token, "\(token)") {
        try WebPushSubscription(token: token)
      }
    }
  }
}

@Suite("Which push services may be called")
struct WebPushAddressesTests {
  private static func addresses(private hosts: Set<String> = [], _ names: [String: [String]])
    -> WebPushAddresses
  {
    WebPushAddresses(privateHosts: hosts) { names[$0] ?? [] }
  }

  @Test(arguments: [
    "localhost", "ntfy", "push.localhost", "push.local", "push.internal", "push.lan", "push.home.arpa",
    "127.0.0.1", "10.0.0.1", "1.1.1.1", "127.1", "0x7f.1", "1.0x7f000001", "push.example.256", "2001:db8::1",
    "::1",
    "2606:4700::1111", "push.invalid", "push.test", "push.example", "push.onion",
  ])
  func `Neither addresses nor names that mean nothing outside`(host: String) async throws {
    let addresses = Self.addresses([host: ["1.1.1.1"]])
    #expect(await !addresses.allow(host))
    await #expect(throws: OutgoingClient.HostError.forbiddenAddress) {
      try await addresses.addresses(of: host)
    }
    // Unless the operator has named it.
    let named = Self.addresses(private: [host], [host: ["127.0.0.1"]])
    #expect(await named.allow(host))
    #expect(try await named.addresses(of: host) == ["127.0.0.1"])
  }

  @Test(arguments: [
    "127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "fd00::1", "::ffff:192.168.0.1", "nonsense",
  ])
  func `No name with an address at home, however many others it has`(address: String) async {
    let addresses = Self.addresses(["push.example.net": ["1.1.1.1", address]])
    #expect(await !addresses.allow("push.example.net"))
    await #expect(throws: OutgoingClient.HostError.forbiddenAddress) {
      try await addresses.addresses(of: "push.example.net")
    }
  }

  @Test func `A name that does not answer is taken, and not called`() async {
    let addresses = Self.addresses([:])
    #expect(await addresses.allow("push.example.net"))
    await #expect(throws: OutgoingClient.HostError.unknownHost) {
      try await addresses.addresses(of: "push.example.net")
    }
  }

  @Test func `Others are called where they are`() async throws {
    let addresses = Self.addresses(["push.example.net": ["1.1.1.1", "1.0.0.1", "2606:4700::1111", "8.8.8.8"]])
    #expect(await addresses.allow("push.example.net"))
    let called = try await addresses.addresses(of: "push.example.net")
    #expect(called == ["1.1.1.1", "2606:4700::1111", "1.0.0.1", "8.8.8.8"])
  }
}
