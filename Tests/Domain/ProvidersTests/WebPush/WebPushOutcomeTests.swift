import Foundation
import NIOCore
import Testing

@testable import Basics
@testable import HTTPClient
@testable import Providers

/// Every row of `Documentation/Providers.md`, Web Push.
@Suite("What push services' answers mean")
struct WebPushOutcomeTests {
  private static let now = Date(timeIntervalSince1970: 1_800_000_000)

  private static func outcome(_ status: Int, _ body: String = "", retryAfter: String? = nil) -> Outcome {
    Outcome(webPush: ProviderResponse(status: status, body, retryAfter: retryAfter)) { now }
  }

  private static let rows: [(Int, Outcome)] = [
    (200, .delivered), (201, .delivered), (202, .delivered), (204, .delivered),
    (301, .retry(.unreadableAnswer, notBefore: nil, scope: .route)),
    (302, .retry(.unreadableAnswer, notBefore: nil, scope: .route)),
    (307, .retry(.unreadableAnswer, notBefore: nil, scope: .route)),
    (308, .retry(.unreadableAnswer, notBefore: nil, scope: .route)),
    (400, .rejected(.requestRefused)), (401, .retry(.vapidRefused, notBefore: nil, scope: .tokenOrRoute)),
    (403, .retry(.vapidRefused, notBefore: nil, scope: .tokenOrRoute)),
    (404, .dead(.subscriptionUnknown, since: nil)),
    (405, .rejected(.requestRefused)), (408, .retry(.timeout, notBefore: nil, scope: .route)),
    (410, .dead(.subscriptionGone, since: nil)), (413, .rejected(.payloadTooLarge)),
    (429, .retry(.tooManyRequests, notBefore: now + 15, scope: .tokenOrRoute)),
    (500, .retry(.serverError, notBefore: nil, scope: .provider)),
    (502, .retry(.serverError, notBefore: nil, scope: .provider)),
    (503, .retry(.serverError, notBefore: nil, scope: .provider)),
    (507, .retry(.serverError, notBefore: nil, scope: .token)),
    (100, .retry(.unreadableAnswer, notBefore: nil, scope: .route)),
    (600, .retry(.unreadableAnswer, notBefore: nil, scope: .route)),
  ]

  @Test(arguments: rows) func `Each status has its meaning, whatever is in the body`(
    status: Int, outcome: Outcome
  ) {
    for body in ["", "<html>gone</html>", #"{"code":410,"errno":106}"#] {
      #expect(Self.outcome(status, body) == outcome)
    }
  }

  @Test func `Apple says with 400 that a subscription has another VAPID key`() {
    let other = Outcome.retry(.vapidRefused, notBefore: nil, scope: .tokenOrRoute)
    #expect(Self.outcome(400, #"{"reason":"VapidPkHashMismatch"}"#) == other)
    for body in [#"{"reason":"BadJwtToken"}"#, "VapidPkHashMismatch", #"["VapidPkHashMismatch"]"#] {
      #expect(Self.outcome(400, body) == .rejected(.requestRefused))
    }
  }

  @Test func `Retry-After is kept to, in both of its forms`() {
    #expect(
      Self.outcome(429, retryAfter: "120")
        == .retry(.tooManyRequests, notBefore: Self.now + 120, scope: .tokenOrRoute))
    #expect(
      Self.outcome(429, retryAfter: "Fri, 15 Jan 2027 08:01:00 GMT")
        == .retry(.tooManyRequests, notBefore: Self.now + 60, scope: .tokenOrRoute))
    // Windows throttles so.
    #expect(
      Self.outcome(406, retryAfter: "30")
        == .retry(.tooManyRequests, notBefore: Self.now + 30, scope: .tokenOrRoute))
    #expect(Self.outcome(406) == .rejected(.requestRefused))
    #expect(
      Self.outcome(503, retryAfter: "7") == .retry(.serverError, notBefore: Self.now + 7, scope: .provider))
  }
}

@Suite("Shares of the connections to push services")
struct WebPushSharesTests {
  private static func shares(_ connections: Int = 10, unproven: Int = 4) -> WebPushShares {
    WebPushShares(limits: .init(connections: connections, unproven: unproven))
  }

  private static func host(_ shares: WebPushShares, isProven: Bool = false) -> WebPushHost {
    let host = WebPushHost(shares: shares, addresses: .init(privateHosts: []) { _ in [] })
    host.record(isProven: isProven)
    return host
  }

  @Test func `Hosts that have not answered leave the rest to those that have`() {
    let shares = Self.shares()
    let dead = (0..<100).map { _ in Self.host(shares) }
    let releases = dead.compactMap { host in host.takeConnection(to: nil) }
    #expect(releases.count == 4)
    let living = Self.host(shares)
    #expect(living.takeConnection(to: nil) == nil && !living.hasRoom)
    living.record(isProven: true)
    #expect((0..<10).count { _ in living.takeConnection(to: nil) != nil } == 6)
    #expect(shares.connections == 10)
    for release in releases { release() }
    #expect(shares.connections == 6)
    #expect(dead[50].takeConnection(to: nil) != nil)
  }

  @Test func `Connections count by what their host has done last`() {
    let shares = Self.shares()
    let host = Self.host(shares)
    let places = (0..<4).compactMap { _ in host.takeConnection(to: nil) }
    #expect(places.count == 4)
    #expect(Self.host(shares).takeConnection(to: nil) == nil)
    host.record(isProven: true)
    #expect(Self.host(shares).takeConnection(to: nil) != nil)
    // It no longer answers: its four and the other one are more than the share.
    host.record(isProven: false)
    host.record(isProven: false)
    #expect(Self.host(shares).takeConnection(to: nil) == nil)
    for release in places { release() }
    #expect(Self.host(shares).takeConnection(to: nil) != nil)
    #expect(shares.connections == 2)
  }

  /// Hosts of one network, each with a connection while there is one to be had.
  private static func crowd(_ shares: WebPushShares, proven: Bool, _ address: String)
    -> [(host: WebPushHost, release: @Sendable () -> Void)]
  {
    (0..<100).compactMap { _ in
      let host = host(shares, isProven: proven)
      return host.takeConnection(to: IPAddress(address)?.network).map { (host, $0) }
    }
  }

  @Test func `The ports of one machine have a quarter of all, and of those of the unproven`() {
    let shares = Self.shares(80, unproven: 16)
    let unproven = Self.crowd(shares, proven: false, "192.0.2.1")
    #expect(unproven.count == 4)
    #expect(Self.crowd(shares, proven: true, "192.0.2.1").count == 16)
    // Of IPv6 the network counts, and an IPv4 address is itself however it is spelled.
    #expect(Self.crowd(shares, proven: true, "::ffff:192.0.2.1").isEmpty)
    #expect(Self.crowd(shares, proven: true, "2001:db8::1").count == 20)
    #expect(Self.crowd(shares, proven: true, "2001:db8::2:0:0:1").isEmpty)
    #expect(Self.crowd(shares, proven: true, "2001:db8:0:1::1").count == 20)
    // What one of them has done last moves its connections.
    for (host, _) in unproven { host.record(isProven: true) }
    #expect(Self.crowd(shares, proven: false, "192.0.2.1").isEmpty)
    for release in unproven.map(\.release) { release() }
    #expect(Self.crowd(shares, proven: false, "192.0.2.1").count == 4)
    #expect(Self.crowd(shares, proven: true, "192.0.2.2").count == 20)
    #expect(shares.connections == 80)
  }

  @Test func `Where there are few, one is left to everybody`() {
    #expect(Self.crowd(Self.shares(4, unproven: 1), proven: false, "192.0.2.1").count == 1)
  }

  @Test func `An owner whose hosts do not answer leaves room for others'`() {
    let shares = Self.shares(100, unproven: 40)
    let (hosts, other) = ((0..<100).map { _ in Self.host(shares) }, Self.host(shares, isProven: true))
    let requests = hosts.compactMap { host in host.begin(for: .chatServer(1)).map { (host, $0) } }
    #expect(requests.count == 30)
    // The same host again counts once, and one that answers not at all.
    #expect(hosts[0].begin(for: .chatServer(1)) != nil)
    #expect(other.begin(for: .chatServer(1)) != nil)
    #expect(hosts[99].begin(for: .chatServer(2)) != nil)
    for (host, request) in requests { host.end(request) }
    #expect(hosts.compactMap { $0.begin(for: .chatServer(1)) }.count == 30)
  }

  @Test func `An owner that ends one request may begin one`() {
    let shares = Self.shares(100, unproven: 40)
    let hosts = (0..<100).map { _ in Self.host(shares) }
    let requests = hosts.map { $0.begin(for: .chatServer(1)) }
    if let request = requests[0] { hosts[0].end(request) }
    #expect(hosts[1...].compactMap { $0.begin(for: .chatServer(1)) }.count == 30)
  }

  @Test func `Idle connections go sooner where there are few left`() {
    let shares = Self.shares(unproven: 10)
    let host = Self.host(shares)
    for _ in 0..<5 { _ = host.takeConnection(to: nil) }
    #expect(shares.idle == .seconds(60))
    _ = host.takeConnection(to: nil)
    #expect(shares.idle == .seconds(5))
  }
}
