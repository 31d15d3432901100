import Basics
import Foundation
import Testing

@Suite struct ShownTextTests {
  @Test(arguments: [
    ("a", 1), (String(repeating: "a", count: 255), 255), (String(repeating: "a", count: 900_000), 255),
    (String(repeating: "ü", count: 255), 255), (String(repeating: "ü", count: 256), 255),
    // One character of Swift's.
    ("e" + String(repeating: "\u{301}", count: 1000), 255),
  ])
  func `What is too long ends in an ellipsis`(_ text: String, _ count: Int) {
    let cut = text.cut
    #expect(cut.unicodeScalars.count == count)
    #expect((cut == text) == (text.unicodeScalars.count <= 255))
    #expect(
      cut == text || cut.hasSuffix("…") && text.unicodeScalars.starts(with: cut.unicodeScalars.dropLast()))
  }

  @Test(arguments: [
    ("a\u{200b}b", #"a\u200bb"#), ("\u{feff}\u{ad}\u{61c}\u{2060}", #"\ufeff\u00ad\u061c\u2060"#),
    ("\u{202e}\u{2066}\u{2028}\u{2029}", #"\u202e\u2066\u2028\u2029"#),
    ("\u{0}\u{1b}\u{7f}\u{9b}", #"\u0000\u001b\u007f\u009b"#),
    // Tags, a variation selector, a filler, a private and an unassigned character.
    ("\u{e0041}\u{fe0f}\u{3164}\u{e000}\u{378}", #"\udb40\udc41\ufe0f\u3164\ue000\u0378"#),
    ("Grüße 한국어 👩 e\u{301}\n", "Grüße 한국어 👩 e\u{301}\n"), (#"a\u200b"#, #"a\u200b"#),
  ])
  func `What is hidden is shown as an escape of JSON`(_ text: String, _ shown: String) {
    #expect(text.escaped(keeping: ["\n"]) == shown)
    #expect(!text.escaped().unicodeScalars.contains { $0.isHidden })
  }
}
