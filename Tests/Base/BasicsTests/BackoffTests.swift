import Basics
import Testing

@Suite struct BackoffTests {
  @Test func `The bound of a pause doubles with each try up to the longest`() {
    let backoff = Backoff(first: 2, longest: 300)
    #expect(
      (1...10).map { backoff.pause(after: $0, random: 1) } == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300])
  }

  @Test func `A pause is anything between nothing and its bound, unless another share is named`() {
    let full = Backoff(first: 2, longest: 300)
    #expect([0, 0.25, 1].map { full.pause(after: 3, random: $0) } == [0, 2, 8])
    let half = Backoff(first: 2, longest: 300, shares: 0.5...1)
    #expect([0, 0.5, 1].map { half.pause(after: 3, random: $0) } == [4, 6, 8])
    let fixed = Backoff(first: 2, longest: 300, shares: 1...1)
    #expect([0, 0.5, 1].map { fixed.pause(after: 3, random: $0) } == [8, 8, 8])
    for _ in 0..<100 { #expect((0...8).contains(full.pause(after: 3))) }
  }

  @Test
  func
    `Whatever number of tries it is told, a pause stays between the first and the longest`()
  {
    let backoff = Backoff(first: 0.5, longest: 300, shares: 1...1)
    #expect([Int.min, -1, 0, 1].map { backoff.pause(after: $0) } == [0.5, 0.5, 0.5, 0.5])
    #expect([31, 64, 1000, Int.max].map { backoff.pause(after: $0) } == [300, 300, 300, 300])
    #expect(Backoff(first: 0, longest: 300).pause(after: .max) == 0)
  }
}
