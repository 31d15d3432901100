import Foundation
import Testing
import Wire

@Suite struct UUIDTests {
  @Test func `texts are read as Foundation reads them`() {
    for _ in 0..<1000 {
      let uuid = UUID()
      #expect(UUID(hyphenated: uuid.uuidString) == uuid)
      #expect(UUID(hyphenated: uuid.uuidString.lowercased()) == uuid)
    }
    let text = "6A0F3A5E-9c1d-4a3b-8f6e-1c2d3e4f5a6b"
    for index in text.indices {
      for replacement in ["-", "0", "g", " ", "é", "\u{301}", ""] {
        var changed = text
        changed.replaceSubrange(index...index, with: replacement)
        #expect(UUID(hyphenated: changed) == UUID(uuidString: changed), "\(changed)")
      }
    }
    for text in ["", "{\(text)}", "\(text)0", String(text.dropLast())] {
      #expect(UUID(hyphenated: text) == nil, "\(text)")
    }
  }
}
