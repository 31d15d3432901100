import Foundation
import NIOCore
import NIOHPACK
import Testing

@testable import HTTPClient
@testable import Providers

/// Tests a provider's refusals of single tokens, and which pushes they delay.
@Suite struct BlameTests {
  private static let now = Date(timeIntervalSince1970: 1_800_000_000)
  private static let quota = Outcome.retry(.fcmQuotaExceeded, notBefore: nil, scope: .tokenOrRoute)

  private static func recipient(_ owner: Int64, token: Int = 0) -> Recipient {
    Recipient(owner: .chatServer(owner), token: Int(owner) * 1000 + token)
  }

  /// A route, and the answers to its senders with their times in seconds.
  private struct Played {
    let health = RouteHealth()

    @discardableResult
    func answer(_ outcome: Outcome, to recipient: Recipient, at seconds: TimeInterval = 0) -> TokenPause? {
      health.record(
        outcome, from: .provider, for: recipient, after: .milliseconds(5), isProbe: false,
        now: BlameTests.now + seconds)
    }

    func mayGo(_ recipient: Recipient, at seconds: TimeInterval) -> Bool {
      switch health.admit(recipient, isPatient: true, now: BlameTests.now + seconds) {
      case .send, .probe: true
      case .wait: false
      }
    }

    func isToBlame(at _: TimeInterval) -> Bool {
      if case .open = health.state { true } else { false }
    }
  }

  @Test
  func `One owner's tokens, however many and however often, hold up nobody else while others get theirs`() {
    let route = Played()
    for second in 0..<600 {
      for token in 0..<30 {
        guard route.mayGo(Self.recipient(1, token: token), at: Double(second)) else { continue }
        route.answer(Self.quota, to: Self.recipient(1, token: token), at: Double(second))
      }
      #expect(route.mayGo(Self.recipient(2), at: Double(second)))
      route.answer(.delivered, to: Self.recipient(2), at: Double(second))
      #expect(route.health.state == .ok)
    }
  }

  @Test func `An owner's probe is not used up by a route that holds it back`() {
    let route = Played()
    for owner: Int64 in 1...3 { route.answer(Self.quota, to: Self.recipient(owner)) }
    #expect(!route.mayGo(Self.recipient(3, token: 1), at: 0))
    route.answer(.misconfigured(.invalidProviderToken), to: Self.recipient(4), at: 60)
    #expect(!route.mayGo(Self.recipient(3, token: 1), at: 60))
    #expect(route.mayGo(Self.recipient(3, token: 1), at: 62))
  }

  @Test func `A refused token waits by itself, for pauses that grow, and no longer than its provider asks`()
    throws
  {
    let route = Played()
    let (busy, other) = (Self.recipient(1, token: 1), Self.recipient(1, token: 2))
    let first = try #require(route.answer(Self.quota, to: busy)?.until)
    #expect((2...4).contains(first.timeIntervalSince(Self.now)))
    #expect(!route.mayGo(busy, at: 1.9) && route.mayGo(other, at: 1.9))
    route.answer(.delivered, to: other, at: 1.9)
    // One shows whether it is taken again, and the others wait for that.
    #expect(route.mayGo(busy, at: 4) && !route.mayGo(busy, at: 4))
    var pause = 0.0
    var time = 4.0
    for _ in 0..<12 {
      let until = try #require(route.answer(Self.quota, to: busy, at: time)?.until)
      pause = until.timeIntervalSince(Self.now) - time
      time += pause
      #expect(route.mayGo(busy, at: time))
    }
    #expect(pause >= 450 && pause <= 900)
    let asked = Outcome.retry(.tooManyRequests, notBefore: Self.now + time + 86_400, scope: .token)
    #expect(route.answer(asked, to: busy, at: time)?.until == Self.now + time + TokenPauses.longest)
    route.answer(.delivered, to: busy, at: time)
    #expect(route.mayGo(busy, at: time) && route.mayGo(busy, at: time))
  }

  @Test func `Other calls than pushes are not held up, and their answers say nothing about pushes`() {
    let route = Played()
    let call = Recipient(owner: .chatServer(1), token: 1, isCall: true)
    for second in [0.0, 10] { route.answer(Self.quota, to: Self.recipient(1), at: second) }
    #expect(!route.mayGo(Self.recipient(1, token: 2), at: 10) && route.mayGo(call, at: 10))
    route.answer(.passedOn(UpstreamReceipt()), to: call, at: 10)
    #expect(route.isToBlame(at: 10) && !route.mayGo(Self.recipient(1, token: 2), at: 10))
  }

  private static let broken: [Outcome] = [(500, "{}"), (502, "<html>"), (200, "<html>"), (404, "")].map {
    Outcome(
      upstream: ProviderResponse(status: $0.0, headers: [:], body: ByteBuffer(string: $0.1)),
      now: { BlameTests.now })
  }

  @Test(arguments: broken)
  func `Another bouncer that fails a chat server holds up only that, and is to blame if it fails three`(
    _ outcome: Outcome
  ) {
    let route = Played()
    func server(_ owner: Int64) -> Recipient { Recipient(owner: .chatServer(owner), token: Int(owner)) }
    for second in stride(from: 0.0, to: 600, by: 0.5) {
      for _ in 1...30 where route.mayGo(server(1), at: second) {
        route.answer(outcome, to: server(1), at: second)
      }
      #expect(route.mayGo(server(2), at: second))
      route.answer(.delivered, to: server(2), at: second)
      #expect(route.health.state == .ok)
    }
    for owner: Int64 in 1...3 { route.answer(outcome, to: server(owner), at: 700) }
    #expect(route.isToBlame(at: 700) && !route.mayGo(server(3), at: 700))
    route.answer(.delivered, to: server(4), at: 701)
    #expect(route.mayGo(server(3), at: 701))
  }

  @Test(arguments: broken)
  func `Calls that fail have nothing wait`(_ outcome: Outcome) {
    let route = Played()
    for second in 0..<100 {
      for owner: Int64 in 1...3 {
        let call = Recipient(owner: .chatServer(owner), token: 1, isCall: true)
        #expect(route.mayGo(call, at: Double(second)))
        route.answer(outcome, to: call, at: Double(second))
      }
      #expect(route.mayGo(Self.recipient(1), at: Double(second)))
    }
  }

  private static let vapid = Outcome.retry(.vapidRefused, notBefore: nil, scope: .tokenOrRoute)

  /// What becomes of a subscription that is refused, and again after its pause: another is answered in between, a second
  /// after it.
  private static func refusedTwice(
    as outcomes: (Outcome, Outcome) = (vapid, vapid), answer: Outcome = .delivered,
    sent before: TimeAmount = .zero,
    isTried: Bool = true, clock: TimeInterval = 4
  ) -> TokenPause? {
    let (route, subscription) = (Played(), recipient(1))
    route.answer(.delivered, to: recipient(1, token: 9), at: -5)
    route.answer(outcomes.0, to: subscription)
    _ = route.health.record(
      answer, from: .provider, for: recipient(2), after: before, isProbe: false, now: now + 1)
    if isTried { #expect(route.mayGo(subscription, at: clock)) }
    return route.answer(outcomes.1, to: subscription, at: clock)
  }

  @Test
  func `A subscription that is refused again, after its push service took what was sent to others, is alone`()
  {
    #expect(Self.refusedTwice()?.isRefusedAlone == true)
  }

  @Test func `It is not where that may be the host's trouble, or ours`() {
    let unproven = [
      // Nothing was taken in between, or it was sent before.
      Self.refusedTwice(answer: .rejected(.payloadTooLarge)), Self.refusedTwice(answer: Self.vapid),
      Self.refusedTwice(sent: .milliseconds(1001)),
      // The two were under way together.
      Self.refusedTwice(isTried: false),
      // It was refused for something else.
      Self.refusedTwice(as: (Self.quota, Self.vapid)),
      // The clock was put back: nobody knows what came first.
      Self.refusedTwice(clock: -86_400),
    ]
    #expect(unproven.map { $0?.isRefusedAlone } == unproven.map { _ in false })
  }

  @Test func `Answers to what was under way together are one refusal`() {
    let route = Played()
    for _ in 0..<100 { route.answer(Self.quota, to: Self.recipient(1)) }
    #expect(route.mayGo(Self.recipient(1), at: 4))
  }

  @Test func `A token that is refused for a day has been refused for too long`() {
    let route = Played()
    for hour in 0..<24 {
      let pause = route.answer(Self.quota, to: Self.recipient(1), at: Double(hour) * 3600)
      #expect(pause?.isTooLong == false)
    }
    #expect(route.answer(Self.quota, to: Self.recipient(1), at: 86_400)?.isTooLong == true)
  }

  @Test func `Three owners that are answered so while nobody gets anything show that it is the route`() {
    let route = Played()
    route.answer(.delivered, to: Self.recipient(9))
    for owner in 1...3 { route.answer(Self.quota, to: Self.recipient(Int64(owner)), at: 59) }
    #expect(route.health.state == .ok)
    route.answer(Self.quota, to: Self.recipient(1, token: 5), at: 60)
    #expect(route.health.state == .open(.fcmQuotaExceeded, since: Self.now + 59))
    // Those that were refused wait, whatever token it is for; who was not is a witness.
    #expect(!route.mayGo(Self.recipient(1, token: 7), at: 60.4))
    #expect(route.mayGo(Self.recipient(4), at: 60.4))
    route.answer(Self.quota, to: Self.recipient(4), at: 60.4)
    #expect(!route.mayGo(Self.recipient(4, token: 7), at: 60.45))
    // One at a time tries again, and one success is enough.
    #expect(
      route.mayGo(Self.recipient(1, token: 8), at: 70) && !route.mayGo(Self.recipient(4, token: 8), at: 70))
    route.answer(.delivered, to: Self.recipient(1, token: 8), at: 70)
    #expect(route.mayGo(Self.recipient(4, token: 9), at: 70))
    #expect(route.health.state == .ok)
  }

  @Test func `Where fewer owners send, all of it over ten seconds shows the same`() {
    let route = Played()
    route.answer(Self.quota, to: Self.recipient(1, token: 1))
    route.answer(Self.quota, to: Self.recipient(2, token: 1), at: 9.9)
    #expect(!route.isToBlame(at: 9.9))
    route.answer(Self.quota, to: Self.recipient(1, token: 2), at: 10)
    #expect(route.isToBlame(at: 10))
    // Where a third one sends, it takes three.
    let other = Played()
    other.answer(Self.quota, to: Self.recipient(1, token: 1))
    other.answer(.rejected(.payloadTooLarge), to: Self.recipient(2), at: 1)
    other.answer(.rejected(.payloadTooLarge), to: Self.recipient(3), at: 1)
    for second in 2..<100 {
      other.answer(Self.quota, to: Self.recipient(1, token: second), at: Double(second))
    }
    #expect(!other.isToBlame(at: 100))
  }

  @Test func `What is never answered is the token's trouble, too, and no proof that the route works`() {
    let route = Played()
    let hanging = Outcome(TransportFailure.unanswered)
    for token in 0..<100 {
      let pause = route.health.record(
        hanging, from: .transport, for: Self.recipient(1, token: token), after: .seconds(60), isProbe: false,
        now: Self.now)
      #expect(pause != nil)
    }
    #expect(route.health.state == .unknown)
    #expect(route.mayGo(Self.recipient(2), at: 1) && !route.mayGo(Self.recipient(1), at: 1))
    // A breaker that connections have opened stays open.
    let broken = Played()
    for _ in 0..<Breaker.threshold {
      broken.answer(.retry(.connectFailed, notBefore: nil, scope: .route), to: Self.recipient(3))
    }
    _ = broken.health.record(
      hanging, from: .transport, for: Self.recipient(1), after: .seconds(60), isProbe: false, now: Self.now)
    #expect(!broken.mayGo(Self.recipient(2), at: 0.4))
  }

  @Test func `Of one token so many pushes may be unanswered, and more wait until one is answered`() {
    let route = Played()
    let (hanging, other) = (Self.recipient(1, token: 1), Self.recipient(1, token: 2))
    for _ in 0..<TokenPauses.lateLimit {
      #expect(route.mayGo(hanging, at: 0))
      route.health.waitedInVain(from: .now(), late: hanging.token, now: Self.now)
    }
    #expect(!route.mayGo(hanging, at: 0) && route.mayGo(other, at: 0))
    // Whoever has given up before it was sent takes no place.
    route.health.waitedInVain(from: .now(), now: Self.now)
    #expect(route.mayGo(other, at: 0))
    _ = route.health.record(
      .delivered, from: .provider, for: hanging, after: .seconds(20), isProbe: false, isLate: true,
      now: Self.now)
    #expect(route.mayGo(hanging, at: 0))
    #expect(route.health.state == .ok)
  }

  @Test func `Tokens that waited because of their route go as soon as it works`() {
    let route = Played()
    for owner in 1...3 { route.answer(Self.quota, to: Self.recipient(Int64(owner)), at: 60) }
    #expect(route.isToBlame(at: 60) && !route.mayGo(Self.recipient(2), at: 60.4))
    route.answer(.delivered, to: Self.recipient(4), at: 60.5)
    #expect(route.mayGo(Self.recipient(2), at: 60.5))
  }

  @Test func `A clock that was ahead for a moment holds no token up`() {
    var pauses = TokenPauses()
    let ahead = Self.now + 1800
    _ = pauses.refused(1, .fcmQuotaExceeded, notBefore: nil, now: ahead, random: 1)
    #expect(pauses.wait(1, now: ahead) != nil)
    #expect(pauses.wait(1, now: Self.now) == nil)
    // Nor does the answer to what was under way then.
    let pause = pauses.refused(1, .fcmQuotaExceeded, notBefore: nil, now: Self.now, random: 1)
    #expect(pause.until == Self.now + 4)
  }

  @Test func `A trial while the clock was ahead holds no token up`() {
    var pauses = TokenPauses()
    _ = pauses.refused(1, .fcmQuotaExceeded, notBefore: nil, now: Self.now, random: 1)
    pauses.began(1, now: Self.now + 1800)
    #expect(pauses.wait(1, now: Self.now + 1801) != nil)
    #expect(pauses.wait(1, now: Self.now + 5) == nil)
  }

  @Test func `However many tokens are refused, so many are remembered`() {
    var pauses = TokenPauses()
    for token in 0..<(TokenPauses.capacity * 2) {
      _ = pauses.refused(token, .fcmQuotaExceeded, notBefore: nil, now: Self.now, random: 1)
    }
    let remembered = (0..<(TokenPauses.capacity * 2)).count { pauses.wait($0, now: Self.now) != nil }
    #expect(remembered == TokenPauses.capacity)
    // There is room again once their pauses are over.
    _ = pauses.refused(-1, .fcmQuotaExceeded, notBefore: nil, now: Self.now + 61, random: 1)
    #expect(pauses.wait(-1, now: Self.now + 61) != nil)
  }
}
