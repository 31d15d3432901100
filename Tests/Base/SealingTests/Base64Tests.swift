import Sealing
import Testing

@Suite struct Base64Tests {
  @Test(arguments: 0...70)
  func `bytes come back`(count: Int) {
    let bytes = (0..<count).map { _ in UInt8.random(in: .min ... .max) }
    #expect(Base64.decodeStrictly(Base64.encode(bytes)) == bytes)
  }

  @Test(arguments: ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYmE=", "/+8A/////w=="])
  func `nothing is read that would be written otherwise`(text: String) {
    #expect(Base64.decodeStrictly(text).map(Base64.encode) == text)
    for index in text.indices {
      for replacement in ["A", "/", "=", "-", "_", " ", "\n", "\0", "é", "", "AA", "===="] {
        var changed = text
        changed.replaceSubrange(index...index, with: replacement)
        if let bytes = Base64.decodeStrictly(changed) { #expect(Base64.encode(bytes) == changed) }
      }
    }
    for more in ["=", "==", "====", "\n"] {
      #expect(Base64.decodeStrictly(text + more) == nil, "\(text + more)")
    }
  }

  @Test(arguments: ["Zh==", "Zm9=", "Zm9vYmF=", "Zg", "Zg=", "Zg==Zg==", "Zm9v\r\n", "-_8=", "Z"])
  func `what is not the one spelling of its bytes is not read`(text: String) {
    #expect(Base64.decodeStrictly(text) == nil)
  }
}
