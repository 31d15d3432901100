import Testing

@testable import HTTP

/// Arrays that are read an element at a time.
@Suite struct JSONListTests {
  private func elements(_ text: String) throws -> [JSON]? { try JSON.list(text) { value, _ in value } }

  @Test(arguments: [
    "[]", " [ ] ", "[1]",
    #" [ 1 , "\u00e9\ud83d\ude00\n\"" , [true, [{"a": {}}]] , {"b": null, "c": [1.5e3]} ] "#,
    #"["\\", "é€😀", -0.5, {}]"#, "null", "1", #""[]""#, "{}", #"{"a":[1]}"#,
  ])
  func `The elements are those of the whole`(_ text: String) throws {
    let whole: [JSON]? = if case .array(let whole) = try JSON.parse(text) { whole } else { nil }
    #expect(try elements(text) == whole)
    #expect(try JSON.list(text) { _, index in index } == whole.map { Array($0.indices) })
  }

  @Test func `The first refusal counts, unless the document is none`() throws {
    struct Refusal: Error {}
    var read = 0
    func refusing(_ text: String) throws {
      _ = try JSON.list(text) { _, index in
        read += 1
        if index == 1 { throw Refusal() }
      }
    }
    #expect(throws: Refusal.self) { try refusing("[1,2,3]") }
    #expect(read == 2)
    #expect(throws: JSON.ParseError.self) { try refusing("[1,2,3") }
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
