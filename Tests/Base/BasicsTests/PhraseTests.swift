import Basics
import Foundation
import Testing

@Suite struct PhraseTests {
  @Test func `Numbers, ages and sizes have units and plurals`() {
    #expect(Phrase.number(0) == "0")
    #expect(Phrase.number(999) == "999")
    #expect(Phrase.number(1_234_567) == "1,234,567")
    #expect(Phrase.number(-1000) == "-1,000")
    #expect(Phrase.count(1, "entry", "entries") == "1 entry")
    #expect(Phrase.count(2000, "realm") == "2,000 realms")
    let now = Date()
    #expect(Phrase.age(nil, at: now) == "never")
    for (seconds, text) in [
      (0, "0 s ago"), (99, "99 s ago"), (180, "3 min ago"), (3 * 3600, "3 h ago"),
      (49 * 3600, "2 days ago"), (-300, "in 5 min"),
    ] {
      #expect(Phrase.age(now - TimeInterval(seconds), at: now) == text)
    }
    #expect(Phrase.until(now + 7200, at: now) == "in 2 h")
    #expect(Phrase.until(now - 1, at: now) == "now")
    #expect(Phrase.size(1) == "1 byte")
    #expect(Phrase.size(1536) == "1.5 KiB")
    #expect(Phrase.size(64 << 20) == "64 MiB")
    #expect(Phrase.share(1, of: 3) == "33 %")
    #expect(Phrase.share(0, of: 0) == "-")
  }

  @Test(arguments: [
    (0, "0 s"), (54.6, "55 s"), (60, "1 min"), (129.4, "2 min 9 s"), (3599.6, "1 h"), (18_190, "5 h 3 min"),
    (200_000, "2 days"),
  ])
  func `A span is exact to the second while it is short`(seconds: TimeInterval, text: String) {
    #expect(Phrase.span(seconds) == text)
  }
}
