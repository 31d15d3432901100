import Foundation
import NIOCore
import Testing

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

  @Test func `Retry-After is kept to, in both of its forms`() {
    #expect(
      Self.outcome(429, retryAfter: "120")
        == .retry(.tooManyRequests, notBefore: Self.now + 120, scope: .tokenOrRoute))
    #expect(
      Self.outcome(429, retryAfter: "Fri, 15 Jan 2027 08:01:00 GMT")
        == .retry(.tooManyRequests, notBefore: Self.now + 60, scope: .tokenOrRoute))
    #expect(
      Self.outcome(503, retryAfter: "7") == .retry(.serverError, notBefore: Self.now + 7, scope: .provider))
  }
}

@Suite("Shares of the connections to push services")
struct WebPushSharesTests {
  private static func shares(_ connections: Int = 10, unproven: Int = 4) -> WebPushShares {
    WebPushShares(limits: .init(connections: connections, unproven: unproven))
  }

  @Test func `Hosts that have not answered leave the rest to those that have`() {
    let shares = Self.shares()
    let dead = (0..<100).map { _ in shares.standing() }
    let places = dead.compactMap { shares.take($0, for: []) }
    #expect(places.count == 4)
    let living = shares.standing()
    #expect(shares.take(living, for: []) == nil && !shares.hasRoom(for: living))
    shares.note(living, isProven: true)
    #expect((0..<10).count { _ in shares.take(living, for: []) != nil } == 6)
    #expect(shares.connections == 10)
    for place in places { shares.giveBack(place) }
    #expect(shares.connections == 6)
    #expect(shares.take(dead[50], for: []) != nil)
  }

  @Test func `Connections count by what their host has done last`() {
    let shares = Self.shares()
    let host = shares.standing()
    let places = (0..<4).compactMap { _ in shares.take(host, for: []) }
    #expect(places.count == 4)
    #expect(shares.take(shares.standing(), for: []) == nil)
    shares.note(host, isProven: true)
    #expect(shares.take(shares.standing(), for: []) != nil)
    // It no longer answers: its four and the other one are more than the share.
    shares.note(host, isProven: false)
    shares.note(host, isProven: false)
    #expect(shares.take(shares.standing(), for: []) == nil)
    for place in places { shares.giveBack(place) }
    #expect(shares.take(shares.standing(), for: []) != nil)
    #expect(shares.connections == 2)
  }

  /// Hosts of one network, each with a connection while there is one to be had.
  private static func crowd(_ shares: WebPushShares, proven: Bool, _ address: String) throws
    -> [(host: WebPushShares.Standing, place: WebPushShares.Place)]
  {
    let holder = WebPushShares.Holder.network(try #require(IPAddress(address)).network)
    return (0..<100).compactMap { _ in
      let host = shares.standing()
      shares.note(host, isProven: proven)
      return shares.take(host, for: [holder]).map { (host, $0) }
    }
  }

  @Test func `The ports of one machine have a quarter of all, and of those of the unproven`() throws {
    let shares = Self.shares(80, unproven: 16)
    let unproven = try Self.crowd(shares, proven: false, "192.0.2.1")
    #expect(unproven.count == 4)
    #expect(try Self.crowd(shares, proven: true, "192.0.2.1").count == 16)
    // Of IPv6 the network counts, and an IPv4 address is itself however it is spelled.
    #expect(try Self.crowd(shares, proven: true, "::ffff:192.0.2.1").isEmpty)
    #expect(try Self.crowd(shares, proven: true, "2001:db8::1").count == 20)
    #expect(try Self.crowd(shares, proven: true, "2001:db8::2:0:0:1").isEmpty)
    #expect(try Self.crowd(shares, proven: true, "2001:db8:0:1::1").count == 20)
    // What one of them has done last moves its connections.
    for (host, _) in unproven { shares.note(host, isProven: true) }
    #expect(try Self.crowd(shares, proven: false, "192.0.2.1").isEmpty)
    for (_, place) in unproven { shares.giveBack(place) }
    #expect(try Self.crowd(shares, proven: false, "192.0.2.1").count == 4)
    #expect(try Self.crowd(shares, proven: true, "192.0.2.2").count == 20)
    #expect(shares.connections == 80)
  }

  @Test func `Where there are few, one is left to everybody`() throws {
    #expect(try Self.crowd(Self.shares(4, unproven: 1), proven: false, "192.0.2.1").count == 1)
  }

  @Test func `An owner whose hosts do not answer leaves room to visit others'`() {
    let shares = Self.shares(100, unproven: 40)
    let (hosts, other) = ((0..<100).map { _ in shares.standing() }, shares.standing())
    let visits = hosts.compactMap { shares.begin($0, for: .chatServer(1)) }
    #expect(visits.count == 30)
    // The same host again is one visit, and one that answers none.
    #expect(shares.begin(hosts[0], for: .chatServer(1)) != nil)
    shares.note(other, isProven: true)
    #expect(shares.begin(other, for: .chatServer(1)) != nil)
    #expect(shares.begin(hosts[99], for: .chatServer(2)) != nil)
    for visit in visits { shares.end(visit) }
    #expect(hosts.compactMap { shares.begin($0, for: .chatServer(1)) }.count == 30)
  }

  @Test func `Idle connections go sooner where there are few left`() {
    let shares = Self.shares(unproven: 10)
    let host = shares.standing()
    for _ in 0..<5 { _ = shares.take(host, for: []) }
    #expect(shares.idle == .seconds(60))
    _ = shares.take(host, for: [])
    #expect(shares.idle == .seconds(5))
  }
}
