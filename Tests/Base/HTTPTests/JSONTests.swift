import NIOCore
import TestSupport
import Testing

@testable import HTTP

@Suite struct JSONTests {
  @Test(arguments: [
    "null", "true", "false", "0", "-1", "9223372036854775807", "1.0", "-0", "1e5", "1.5E-3",
    "92233720368547758070",
    #""""#, #""a""#, #""é€😀""#, "[]", "{}", "[1,[2,[3]]]", #"{"a":1,"b":{"c":[true,null]}}"#,
    #""\"\\\n\r\t\u0001""#,
  ])
  func `A document is read and written as it was`(text: String) throws {
    let expected = text == "-0" ? "0" : text
    #expect(try JSON.parse(text).text == expected)
    #expect(try JSON.parse(" \n\t\(text)\r ").text == expected)
  }

  @Test func `Whole numbers are told apart from others`() throws {
    #expect(try JSON.parse("1") == .integer(1))
    #expect(try JSON.parse("1.0") == .number("1.0"))
    #expect(try JSON.parse("92233720368547758070") == .number("92233720368547758070"))
  }

  @Test func `Escapes become characters`() throws {
    #expect(try JSON.parse(#""\u0041\/\b\f\ud83d\ude00""#) == "A/\u{8}\u{c}😀")
  }

  @Test(arguments: [
    "", " ", "nul", "tru", "01", "1.", ".5", "+1", "1e", "--1", "-", "NaN", "Infinity", "'a'", #"""#,
    #""\x""#, #""\u12""#,
    #""\ud83d""#, #""\ud83d\u0041""#, #""\ude00""#, "\"\n\"", "[", "[1", "[1,]", "[,1]", "[1 2]", "{",
    #"{"a"}"#, #"{"a":}"#,
    #"{"a":1,}"#, "{1:2}", #"{"a":1"#, "1 2", "null x", "[1]]", "\u{0}", "[1] 2", #"[{"a"}]"#, #"[{"a":1]"#,
  ])
  func `What is no document is refused`(text: String) {
    #expect(throws: JSON.ParseError.self) { try JSON.parse(text) }
    #expect(throws: JSON.ParseError.self) { try JSON.list(text) { _, _ in } }
  }

  @Test func `Bytes that are no UTF-8 are told from bad syntax`() {
    #expect(throws: JSON.ParseError.encoding) { try JSON.parse([0x22, 0xFF, 0x22] as [UInt8]) }
    #expect(throws: JSON.ParseError.encoding) { try JSON.parse([0x22, 0x5C, 0x6E, 0xC3, 0x22] as [UInt8]) }
  }

  @Test(arguments: [
    ("", "it is empty"), ("[1,", "it ends too early"),
    ("{\"a\":1,\n}", "line 2, column 1: } is not expected there"),
    ("\u{FEFF}{}", "it begins with a byte order mark (EF BB BF), which JSON must not have"),
    ("{'a':1}", "line 1, column 2: ' is not expected there"),
    (#"["ä\x"]"#, "line 1, column 5: x is not expected there"),
    (
      "[\"a\nb\"]",
      "line 1, column 4: a line break or another control character in a text is written as an escape (\\n)"
    ),
    (
      #"{"a":"ä \ud83d b"}"#,
      #"line 1, column 9: \ud83d is half of a surrogate pair: write both halves, or the character itself"#
    ),
    (
      #"["\ude00"]"#,
      #"line 1, column 3: \ude00 is half of a surrogate pair: write both halves, or the character itself"#
    ), (String(repeating: "[", count: 65), "it is nested deeper than 64 levels"),
    ("[1] 😀", "line 1, column 5: 😀 is not expected there"),
  ])
  func `What is wrong with a document is said, and where`(text: String, explanation: String) {
    let error = #expect(throws: JSON.ParseError.self) { try JSON.parse(text) }
    #expect(error?.explanation(in: Array(text.utf8)) == explanation)
  }

  @Test func `Nesting is limited, so that a hostile document cannot exhaust the stack`() throws {
    let deep = String(repeating: "[", count: 64) + String(repeating: "]", count: 64)
    #expect(try JSON.parse(deep).text == deep)
    #expect(throws: JSON.ParseError.depth) { try JSON.parse("[\(deep)]") }
    #expect(throws: JSON.ParseError.depth) { try JSON.list("[\(deep)]") { _, _ in } }
    #expect(throws: JSON.ParseError.depth) { try JSON.parse(String(repeating: "{\"a\":", count: 1_000_000)) }
  }

  @Test func `What is nested too deep can be cut off and spoils nothing`() throws {
    func cut(_ text: String) throws -> String {
      try JSON.parse(ByteBuffer(string: text), cutBelow: 2).text
    }
    #expect(try cut(#"{"a":[1,[2],{"b":"]}"}],"c":{}}"#) == #"{"a":[1,null,null],"c":{}}"#)
    let deep = String(repeating: #"{"a":["#, count: 500_000)
    let end = String(repeating: "]}", count: 500_000)
    #expect(try cut("[\(deep)\(end),1]") == #"[{"a":null},1]"#)
    for bad in ["[[[\(deep)", "[[[}]]", #"[[["]]]"#, "[[[\(deep)\(end)]}", "[[[]]] x"] {
      #expect(throws: JSON.ParseError.self) { try cut(bad) }
    }
    #expect(try JSON.parse(#"{"a":[1,[2]],"b":{}}"#).depth == 3)
    #expect(JSON.null.depth == 0)
  }

  @Test func `Of members with one name the last counts`() throws {
    #expect(try JSON.parse(#"{"a":1,"a":2}"#)["a"] == 2)
  }

  @Test func `Random bytes never crash the parser`() {
    var generator = SplitMix(seed: 7)
    let alphabet = Array(#"{}[]",:\u0123456789eE+-.truefalsn "#.utf8)
    for _ in 0..<20_000 {
      let bytes = (0..<Int.random(in: 0...40, using: &generator)).map { _ in
        Bool.random(using: &generator)
          ? alphabet.randomElement(using: &generator) ?? 0 : .random(in: 0...255, using: &generator)
      }
      guard let value = try? JSON.parse(bytes) else { continue }
      #expect((try? JSON.parse(value.bytes)) == value)
    }
  }
}
