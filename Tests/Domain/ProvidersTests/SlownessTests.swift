import NIOCore
import Testing

@testable import Providers

@Suite("Whether a route is too slow to be waited for")
struct SlownessTests {
  static let start = NIODeadline.uptimeNanoseconds(1_000_000_000_000)

  /// After so many who waited three seconds, one after the other.
  private func slowness(after count: Int) -> Slowness {
    var slowness = Slowness()
    for index in 0..<count {
      let began = Self.start + .seconds(3 * Int64(index))
      slowness.waitedInVain(from: began, now: began + .seconds(3))
    }
    return slowness
  }

  @Test func `Three who wait in vain one after the other are enough`() {
    #expect(!slowness(after: 2).isSlow)
    #expect(slowness(after: 3).isSlow)
  }

  @Test func `Those who wait together count once`() {
    var slowness = Slowness()
    for _ in 0..<100 { slowness.waitedInVain(from: Self.start, now: Self.start + .seconds(3)) }
    #expect(!slowness.isSlow)
  }

  @Test func `Who gives up early says nothing`() {
    var slowness = Slowness()
    for index in 0..<9 {
      let began = Self.start + .seconds(Int64(index))
      slowness.waitedInVain(from: began, now: began + .milliseconds(999))
    }
    #expect(!slowness.isSlow)
  }

  @Test func `An answer sooner than that ends it, a later one does not`() {
    var slowness = slowness(after: 5)
    slowness.answered(after: .seconds(3))
    #expect(slowness.isSlow)
    slowness.answered(after: .milliseconds(2999))
    #expect(!slowness.isSlow)
  }
}
