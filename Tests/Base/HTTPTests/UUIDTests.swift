import Foundation
import HTTP
import Testing

@Suite struct UUIDTests {
  @Test func `every spelling with hyphens in their places is read`() {
    for _ in 0..<1000 {
      let uuid = UUID()
      #expect(UUID(hyphenated: uuid.uuidString) == uuid)
      #expect(UUID(hyphenated: uuid.uuidString.lowercased()) == uuid)
    }
  }

  @Test(arguments: ["-", "g", " ", "+", "x", "é", "\u{301}", "", "00"])
  func `nothing else is, wherever it differs`(replacement: String) {
    let text = "6A0F3A5E-9c1d-4a3b-8f6e-1c2d3e4f5a6b"
    for index in text.indices where String(text[index]) != replacement {
      var changed = text
      changed.replaceSubrange(index...index, with: replacement)
      #expect(UUID(hyphenated: changed) == nil, "\(changed)")
    }
    #expect(UUID(hyphenated: "") == nil)
  }

  @Test(arguments: [8, 13, 18, 23]) func `a hyphen beside its place is none`(place: Int) {
    var text = Array("6A0F3A5E-9c1d-4a3b-8f6e-1c2d3e4f5a6b")
    text.swapAt(place, place + 1)
    #expect(UUID(hyphenated: String(text)) == nil)
  }
}
