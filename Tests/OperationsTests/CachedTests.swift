import Synchronization
import Testing

@testable import Operations

/// What the operator's pages keep for a while.
@Suite struct CachedTests {
  private struct Away: Error {}

  @Test func `What was found out before stays, with its age, while nothing newer can be had`() async throws {
    let isAway = Mutex(false)
    let cached = Cached<Int>(for: .zero) {
      if isAway.withLock({ $0 }) { throw Away() }
      return 7
    }
    let fresh = try #require(await cached.aged(within: .seconds(60)))
    #expect(fresh.value == 7 && fresh.age == nil)
    isAway.withLock { $0 = true }
    let old = try #require(await cached.aged(within: .seconds(60)))
    #expect(old.value == 7)
    #expect(try #require(old.age) >= .zero)
    isAway.withLock { $0 = false }
    let again = try #require(await cached.aged(within: .seconds(60)))
    #expect(again.age == nil)
  }

  @Test func `Nothing is made up where it never could be had`() async throws {
    let cached = Cached<Int>(for: .seconds(5)) { throw Away() }
    #expect(await cached.value(within: .seconds(60)) == nil)
  }
}
