import Foundation
import NIOCore
import Testing

@testable import Providers

/// Tests how an outcome changes the state of its route.
@Suite struct RouteHealthTests {
  private static let now = Date(timeIntervalSince1970: 1_800_000_000)

  fileprivate static let recipient = Recipient(owner: .chatServer(1), token: 1)
  private static let other = Recipient(owner: .chatServer(2), token: 2)

  private static func retry(_ scope: Outcome.Scope, notBefore: Date? = nil) -> Outcome {
    .retry(.unknown, notBefore: notBefore, scope: scope)
  }

  /// The state of a route after this outcome has occurred `times` times.
  private static func route(_ outcome: Outcome, times: Int = Breaker.threshold) -> RouteHealth {
    let health = RouteHealth()
    for _ in 0..<times { health.record(outcome, after: .milliseconds(50), now: now) }
    return health
  }

  /// When the next one goes; nil: at once.
  private static func wait(_ health: RouteHealth) -> TimeInterval? {
    guard case .wait(.retry(_, let until?, _)) = health.admit(other, isPatient: true, now: now) else {
      return nil
    }
    return until.timeIntervalSince(now)
  }

  @Test(arguments: [
    Outcome.delivered, .dead(.unregistered, since: nil), .suspect(.badDeviceToken),
    .rejected(.payloadTooLarge), retry(.token),
  ])
  func `What concerns one notification or device proves that the route works`(outcome: Outcome) {
    let health = Self.route(Self.retry(.route))
    #expect(Self.wait(health) != nil)
    health.record(outcome, after: .milliseconds(50), isProbe: true, now: Self.now)
    #expect(health.state == .ok)
    #expect(Self.wait(health) == nil)
  }

  @Test(arguments: [Outcome.Scope.route, .provider])
  func `What concerns the route opens its breaker when it comes often enough`(scope: Outcome.Scope) {
    let almost = Self.route(Self.retry(scope), times: Breaker.threshold - 1)
    #expect(almost.state == .unknown)
    #expect(Self.wait(almost) == nil)
    let open = Self.route(Self.retry(scope))
    #expect(open.state == .open(.unknown, since: Self.now))
    #expect(Self.wait(open) != nil)
  }

  @Test func `What is misconfigured opens the breaker at once`() {
    #expect(Self.wait(Self.route(.misconfigured(.invalidProviderToken), times: 1)) != nil)
  }

  @Test(arguments: [Outcome.Scope.connection, .caller, .process])
  func `What concerns a connection or whoever sent it says nothing about the route`(scope: Outcome.Scope) {
    let health = Self.route(Self.retry(scope), times: 100)
    #expect(health.state == .unknown)
    #expect(Self.wait(health) == nil)
  }

  @Test
  func `Connections that end one after the other for seconds show that the route does not work, and open it`()
  {
    let health = Self.route(.delivered, times: 1)
    func lose(at seconds: TimeInterval, times: Int = 1) {
      for _ in 0..<times {
        health.record(
          .retry(.connectionLost, notBefore: nil, scope: .connection), from: .transport,
          after: .milliseconds(5),
          isProbe: false, now: Self.now + seconds)
      }
    }
    lose(at: 0, times: 1000)
    lose(at: 2.9)
    #expect(health.state == .ok)
    lose(at: 3)
    #expect(health.state == .failing(.connectionLost, since: Self.now))
    lose(at: 4, times: Breaker.threshold - 2)
    #expect(health.state == .failing(.connectionLost, since: Self.now))
    lose(at: 5)
    #expect(health.state == .open(.connectionLost, since: Self.now))
    health.record(.delivered, after: .milliseconds(5), isProbe: true, now: Self.now + 7)
    #expect(health.state == .ok)
  }

  @Test func `A connection that ends among successes is no failure`() {
    let health = Self.route(.delivered, times: 1)
    for second in 0..<60 {
      let outcome: Outcome =
        second.isMultiple(of: 3) ? .delivered : .retry(.connectionLost, notBefore: nil, scope: .connection)
      health.record(
        outcome, from: .transport, after: .milliseconds(5), isProbe: false, now: Self.now + Double(second))
      #expect(health.state == .ok)
    }
  }

  @Test func `The provider's word when to come back is the route's only where it was surely meant for it`() {
    let notBefore = Self.now + 90
    #expect(Self.wait(Self.route(Self.retry(.route, notBefore: notBefore))) == 90)
    #expect(Self.wait(Self.route(Self.retry(.provider, notBefore: notBefore))) == 90)
    #expect(Self.wait(Self.route(Self.retry(.tokenOrRoute, notBefore: notBefore))) == nil)
  }

  @Test(arguments: [(Outcome.Scope.caller, true), (.process, true), (.connection, false)])
  func `A probe that its caller gave up lets the next one go, and a lost connection does not`(
    scope: Outcome.Scope, goesOn: Bool
  ) {
    let health = Self.route(Self.retry(.route))
    let later = Self.now + 2
    #expect(health.admit(Self.other, isPatient: true, now: later) == .probe)
    health.record(Self.retry(scope), from: .transport, after: .milliseconds(50), isProbe: true, now: later)
    #expect((health.admit(Self.other, isPatient: true, now: later) == .probe) == goesOn)
  }

  @Test func `Calls wait as long as one was asked to, and no longer once another was taken since`() {
    let health = RouteHealth()
    let call = Recipient(owner: .chatServer(1), token: ~1, isCall: true)
    func mayGo(at seconds: TimeInterval) -> Bool {
      health.admit(call, isPatient: true, now: Self.now + seconds) == .send
    }
    func answer(_ outcome: Outcome, at seconds: TimeInterval) {
      _ = health.record(
        outcome, from: .provider, for: call, after: .milliseconds(50), isProbe: false, now: Self.now + seconds
      )
    }
    #expect(mayGo(at: 0) && mayGo(at: 0))
    answer(Self.retry(.token, notBefore: Self.now + 30), at: 0)
    // It was sent before.
    answer(.delivered, at: 1)
    #expect(!mayGo(at: 29))
    #expect(mayGo(at: 31))
    #expect(!mayGo(at: 31))
    answer(.delivered, at: 31)
    #expect(mayGo(at: 31) && mayGo(at: 31))
  }

  @Test func `A token is not tried by a push that its route holds back`() {
    let health = Self.route(Self.retry(.token), times: 1)
    let later = Self.now + 4
    health.record(.misconfigured(.invalidProviderToken), after: .zero, now: later)
    guard
      case .wait(.retry(.breakerOpen, _, .route)) = health.admit(Self.recipient, isPatient: true, now: later)
    else {
      Issue.record("sent over an open route")
      return
    }
    #expect(health.admit(Self.recipient, isPatient: true, now: later + 2) == .probe)
  }

  @Test func `What cannot be sent at all proves nothing, and lets the next probe go`() {
    let unsendable = Outcome.suspect(.badDeviceToken)
    let unused = RouteHealth()
    unused.record(unsendable, from: .ourselves, after: .zero, isProbe: false, now: Self.now)
    #expect(unused.state == .unknown)
    let open = Self.route(Self.retry(.route))
    let later = Self.now + 2
    for _ in 0..<2 {
      #expect(open.admit(Self.other, isPatient: true, now: later) == .probe)
      open.record(unsendable, from: .ourselves, after: .zero, isProbe: true, now: later)
    }
    #expect(open.state == .open(.unknown, since: Self.now))
  }
}

extension RouteHealth {
  @discardableResult
  fileprivate func record(
    _ outcome: Outcome, from source: Outcome.Source = .provider, after time: TimeAmount,
    isProbe: Bool = false, now: Date
  ) -> TokenPause? {
    record(outcome, from: source, for: RouteHealthTests.recipient, after: time, isProbe: isProbe, now: now)
  }
}
