import Basics
import Testing

@Suite struct FairShareTests {
  @Test func `Who is alone gets three quarters, and whoever comes next finds room`() {
    var counts = [0, 0, 0, 0]
    for owner in counts.indices {
      while FairShare.allows(own: counts[owner], total: counts.reduce(0, +), limit: 1000) {
        counts[owner] += 1
      }
    }
    #expect(counts == [750, 188, 47, 12])
    #expect(FairShare.room(own: 0, total: 0, limit: 1000) == 750)
    #expect(FairShare.room(own: 0, total: 750, limit: 1000) == 188)
    #expect(FairShare.room(own: 749, total: 749, limit: 1000) == 1)
    #expect(FairShare.room(own: 750, total: 750, limit: 1000) == 0)
    #expect(FairShare.room(own: 900, total: 990, limit: 1000) == 0)
    // Who has most is refused until it has less.
    #expect(!FairShare.allows(own: 700, total: 800, limit: 1000))
    #expect(FairShare.allows(own: 100, total: 800, limit: 1000))
  }
}
