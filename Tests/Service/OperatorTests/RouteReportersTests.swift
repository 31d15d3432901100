import Foundation
import Providers
import Testing

@testable import Basics
@testable import Operator

@Suite struct RouteReportersTests {
  private static let start = Date(timeIntervalSince1970: 1_800_000_000)
  private static let apns = Route(provider: .apns, credential: "main", target: "org.example.chat")
  private static let fcm = Route(provider: .fcm, credential: "main", target: "demo")
  private static let failing = PushProviders.RouteState.failing(.connectionLost, since: start)

  /// The events reported for a route with these states, one per second.
  private static func told(_ states: [PushProviders.RouteState?]) -> [Int: [RouteReporters.Change]] {
    var reporter = RouteReporters()
    var told: [Int: [RouteReporters.Change]] = [:]
    for (second, state) in states.enumerated() {
      let events = reporter.update(state.map { [apns: $0] } ?? [:], now: start + Double(second))
      if !events.isEmpty { told[second] = events }
    }
    return told
  }

  @Test func `A route is told of once when it begins to fail and once when it has recovered`() {
    let open = PushProviders.RouteState.open(.timeout, since: Self.start)
    let states = [.unknown, .ok, Self.failing, Self.failing] + Array(repeating: open, count: 100)
    #expect(
      Self.told(states + Array(repeating: .ok, count: 20)) == [
        2: [.began(Self.apns, .connectionLost)], 109: [.recovered(Self.apns, after: 104)],
      ])
  }

  @Test func `What opens at once is told of by its own reason`() {
    #expect(
      Self.told([.ok, .open(.invalidProviderToken, since: Self.start)])
        == [1: [.began(Self.apns, .invalidProviderToken)]])
  }

  @Test func `A route that works now and then is not told of each time`() {
    let unsteady = (0..<300).map { $0.isMultiple(of: 6) ? Self.failing : .ok }
    #expect(Self.told(unsteady) == [0: [.began(Self.apns, .connectionLost)]])
    let recovered = unsteady + Array(repeating: .ok, count: 10)
    #expect(Self.told(recovered)[300] == [.recovered(Self.apns, after: 295)])
  }

  @Test func `A new key that fails as well is told of, and one that works ends the matter`() {
    let after = PushProviders.RouteState.failing(.invalidProviderToken, since: Self.start + 3)
    #expect(
      Self.told([Self.failing, .unknown, .unknown, after]) == [
        0: [.began(Self.apns, .connectionLost)], 3: [.began(Self.apns, .invalidProviderToken)],
      ])
    #expect(
      Self.told([Self.failing, .unknown] + Array(repeating: .ok, count: 10))[7]
        == [.recovered(Self.apns, after: 2)])
  }

  @Test func `A route that is gone is not told of, and begins anew if it comes back`() {
    #expect(
      Self.told([Self.failing, nil, .ok, .ok, .ok, .ok, .ok, .ok, .ok, Self.failing]) == [
        0: [.began(Self.apns, .connectionLost)], 9: [.began(Self.apns, .connectionLost)],
      ])
  }

  @Test func `Routes are told of apart`() {
    var reporter = RouteReporters()
    #expect(
      reporter.update([Self.apns: Self.failing, Self.fcm: .ok], now: Self.start)
        == [.began(Self.apns, .connectionLost)])
    #expect(
      reporter.update([Self.apns: Self.failing, Self.fcm: Self.failing], now: Self.start + 1)
        == [.began(Self.fcm, .connectionLost)])
  }

  @Test func `A clock that is put back lets nothing be told too early or not at all`() {
    var reporter = RouteReporters()
    _ = reporter.update([Self.apns: Self.failing], now: Self.start)
    #expect(reporter.update([Self.apns: .ok], now: Self.start + 10).isEmpty)
    #expect(reporter.update([Self.apns: .ok], now: Self.start - 3600).isEmpty)
    #expect(
      reporter.update([Self.apns: .ok], now: Self.start - 3595) == [.recovered(Self.apns, after: 0)])
  }
}

extension RouteReporters.Change {
  fileprivate static func began(_ route: Route, _ reason: Reason) -> Self {
    Self(route: route, event: .began, reason: reason)
  }

  fileprivate static func recovered(_ route: Route, after seconds: TimeInterval) -> Self {
    Self(route: route, event: .ended(after: seconds), reason: nil)
  }
}
