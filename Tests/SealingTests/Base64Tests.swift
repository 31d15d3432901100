import Foundation
import Sealing
import Testing

@Suite struct Base64Tests {
  /// What Foundation reads, if it would write it so.
  private func canonical(_ text: String) -> [UInt8]? {
    Data(base64Encoded: text).flatMap { $0.base64EncodedString() == text ? [UInt8]($0) : nil }
  }

  @Test(arguments: 0...70)
  func `bytes come back`(count: Int) {
    let bytes = (0..<count).map { _ in UInt8.random(in: .min ... .max) }
    let text = Base64.encode(bytes)
    #expect(text == Data(bytes).base64EncodedString())
    #expect(Base64.decodeStrictly(text) == bytes)
  }

  @Test(arguments: ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYmE=", "/+8A/////w=="])
  func `nothing is read that would be written otherwise`(text: String) {
    #expect(Base64.decodeStrictly(text) == canonical(text))
    for index in text.indices {
      for replacement in ["A", "/", "=", "-", "_", " ", "\n", "\0", "é", "", "AA", "===="] {
        var changed = text
        changed.replaceSubrange(index...index, with: replacement)
        #expect(Base64.decodeStrictly(changed) == canonical(changed), "\(changed)")
      }
    }
    for more in ["=", "==", "====", "A", "AAAA", "\n"] {
      #expect(Base64.decodeStrictly(text + more) == canonical(text + more), "\(text + more)")
    }
  }
}
