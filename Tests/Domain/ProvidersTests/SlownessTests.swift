import Foundation
import NIOCore
import Testing

@testable import Providers

@Suite("Whether a route is too slow to be waited for")
struct SlownessTests {
  static let start = NIODeadline.uptimeNanoseconds(1_000_000_000_000)
  private let now = Date(timeIntervalSince1970: 1_800_000_000)

  /// After so many who waited three seconds, one after the other.
  private func slowness(after count: Int) -> RouteHealth.Slowness {
    var slowness = RouteHealth.Slowness()
    for index in 0..<count {
      let began = Self.start + .seconds(3 * Int64(index))
      slowness.waitedInVain(from: began, until: began + .seconds(3), now: now + Double(3 * index))
    }
    return slowness
  }

  @Test func `Three who wait in vain one after the other are enough`() {
    #expect(slowness(after: 2).since == nil)
    #expect(slowness(after: 3).since == now + 6)
    #expect(slowness(after: 5).since == now + 6)
  }

  @Test func `Those who wait together count once`() {
    var slowness = RouteHealth.Slowness()
    for _ in 0..<100 { slowness.waitedInVain(from: Self.start, until: Self.start + .seconds(3), now: now) }
    #expect(slowness.since == nil)
  }

  @Test func `Who gives up early says nothing`() {
    var slowness = RouteHealth.Slowness()
    for index in 0..<9 {
      let began = Self.start + .seconds(Int64(index))
      slowness.waitedInVain(from: began, until: began + .milliseconds(999), now: now)
    }
    #expect(slowness.since == nil)
  }

  @Test func `An answer sooner than that ends it, a later one does not`() {
    var slowness = slowness(after: 5)
    slowness.answered(after: .seconds(3))
    #expect(slowness.since != nil)
    slowness.answered(after: .milliseconds(2999))
    #expect(slowness.since == nil)
  }
}
