import Foundation
import Testing

@testable import Basics

@Suite struct TextBytesTests {
  @Test func `What JSON escapes is found wherever it is`() {
    for length in 0..<20 {
      for place in 0..<length {
        for byte in UInt8.min ... .max {
          var text = [UInt8](repeating: 0x80, count: length)
          text[place] = byte
          let isEscaped = byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
          let found = text.withUnsafeBufferPointer { $0.firstEscapedInJSON(from: 0) }
          #expect(found == (isEscaped ? place : length))
        }
      }
    }
  }

  @Test(arguments: [
    "", "a", "\"", "\\\"", "a\n\tb\u{8}\u{C}\r\u{1}\u{1F}\u{7F}é🎉", String(repeating: "x\"", count: 40),
  ])
  func `A text in JSON reads the same`(_ text: String) throws {
    var bytes: [UInt8] = []
    bytes.appendJSON(text)
    #expect(try JSONDecoder().decode(String.self, from: Data(bytes)) == text)
  }

  @Test func `Only UTF-8 is text`() {
    func text(_ bytes: [UInt8]) -> String? { bytes.withUnsafeBufferPointer(String.init(utf8:)) }
    #expect(text([]) == "")
    #expect(text(Array("aé🎉".utf8)) == "aé🎉")
    for malformed: [UInt8] in [
      [0x80], [0xC3], [0x61, 0xC0, 0x80], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80],
    ] {
      #expect(text(malformed) == nil)
    }
  }

  @Test func `A UUID is spelled in lower case`() {
    for uuid in [UUID(), UUID(uuid: (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0xAB, 0xCD, 0xEF, 0xF0, 0xFF))] {
      #expect(uuid.hyphenated == uuid.uuidString.lowercased())
    }
  }
}
