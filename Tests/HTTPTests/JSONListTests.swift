import Testing

@testable import HTTP

/// Arrays that are read an element at a time.
@Suite struct JSONListTests {
  private func elements(_ text: String) throws -> [JSON]? { try JSON.List(text)?.map { value, _ in value } }

  @Test(arguments: [
    "[]", " [ ] ", "[1]",
    #" [ 1 , "\u00e9\ud83d\ude00\n\"" , [true, [{"a": {}}]] , {"b": null, "c": [1.5e3]} ] "#,
    #"["\\", "é€😀", -0.5, {}]"#,
  ])
  func `The elements are those of the whole`(_ text: String) throws {
    guard case .array(let whole) = try JSON.parse(text) else { return #expect(Bool(false)) }
    let list = try #require(try JSON.List(text))
    #expect(list.count == whole.count)
    #expect(try list.map { value, _ in value } == whole)
    #expect(try list.map { _, index in index } == Array(whole.indices))
  }

  @Test(arguments: ["null", "1", #""[]""#, "{}", #"{"a":[1]}"#]) func `What is no array is none`(
    _ text: String
  )
    throws
  {
    #expect(try JSON.List(text) == nil)
  }

  @Test(arguments: [
    "", "[", "[1", "[1,]", "[,1]", "[1 2]", "[1]]", "[1] 2", "[01]", "[1.]", "[nul]", #"["a]"#, #"["\x"]"#,
    #"["\ud83d"]"#,
    "[\"\n\"]", #"[{"a"}]"#, #"[{"a":1,}]"#, #"[{"a":1]"#, "{", #"{"a":01}"#,
  ])
  func `What is no document is refused before any element is read`(_ text: String) {
    #expect(throws: JSON.ParseError.self) { try JSON.List(text) }
    #expect(throws: JSON.ParseError.self) { try JSON.parse(text) }
  }

  @Test func `Depth is counted as in the whole`() throws {
    func nested(_ depth: Int) -> String {
      String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
    }
    #expect(try elements(nested(JSON.maximumDepth))?.count == 1)
    #expect(throws: JSON.ParseError.depth) { try elements(nested(JSON.maximumDepth + 1)) }
  }

  @Test func `The first refusal ends it`() throws {
    struct Refusal: Error {}
    var read = 0
    #expect(throws: Refusal.self) {
      try JSON.List("[1,2,3]")?.map { _, index in
        read += 1
        if index == 1 { throw Refusal() }
      }
    }
    #expect(read == 2)
  }

  @Test func `More values than in earnest are refused`() throws {
    func zeros(_ count: Int) -> String {
      "[" + Array(repeating: "0", count: count).joined(separator: ",") + "]"
    }
    // The array is a value as well.
    let most = 10_000 + 2 * 10_000 / 32 - 1
    #expect(try JSON.parse(zeros(most)).depth == 1)
    #expect(throws: JSON.ParseError.tooManyValues) { try JSON.parse(zeros(most + 1000)) }
    // One at a time they are many without being too many.
    #expect(try elements(zeros(100_000))?.count == 100_000)
    #expect(throws: JSON.ParseError.tooManyValues) { try elements("[\(zeros(most + 1000))]") }
  }
}
