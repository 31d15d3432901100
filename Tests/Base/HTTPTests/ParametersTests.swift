import Testing

@testable import HTTP

@Suite struct ParametersTests {
  private func message(_ body: () throws -> Void) -> String? {
    do { try body() } catch let error as APIError { return error.message } catch { return "\(error)" }
    return nil
  }

  @Test func `A form is read as Django reads it`() throws {
    let fields = try #require(Form.parse(Array("a=1&b=x+y%2Bz&c&d=%zz&e=%C3%A9%ff&=v&a=2&&f=1=2".utf8)))
    #expect(fields.map(\.name) == ["a", "b", "c", "d", "e", "", "a", "f"])
    #expect(fields.map(\.value) == ["1", "x y+z", "", "%zz", "é\u{FFFD}", "v", "2", "1=2"])
  }

  @Test func `A form has at most 1000 fields`() {
    #expect(Form.parse(Array(String(repeating: "a=1&", count: 1000).utf8))?.count == 1000)
    #expect(Form.parse(Array(String(repeating: "a=1&", count: 1001).utf8)) == nil)
  }

  @Test func `What stands between the fields of a form counts for nothing`() {
    #expect(Form.parse(Array("&&&a&&=&&".utf8))?.map(\.name) == ["a", ""])
    #expect(Form.parse(Array(repeating: UInt8(ascii: "&"), count: 100_000))?.isEmpty == true)
    #expect(Form.parse([])?.isEmpty == true)
  }

  @Test(
    arguments: [
      ("abc", "n is not valid JSON"), ("", "n is not valid JSON"), ("\"1\"", "n is not an integer"),
      ("1.0", "n is not an integer"), ("1.5", "n is not an integer"), ("true", "n is not an integer"),
      ("null", "n is not an integer"), ("5", nil), ("-5", nil), (" 5 ", nil),
    ] as [(String, String?)])
  func `An integer parameter is JSON's integer and nothing else`(text: String, expected: String?) {
    var parameters = Parameters([("n", text)])
    #expect(message { _ = try parameters.integer("n") } == expected)
  }

  @Test func `A missing parameter is named, with the name in a field of its own`() throws {
    var parameters = Parameters([])
    let error = #expect(throws: APIError.self) { try parameters.required("hostname") }
    #expect(error?.message == "Missing 'hostname' argument")
    #expect(error?.code == "REQUEST_VARIABLE_MISSING")
    #expect(error?.fields == [.init("var_name", "hostname")])
  }

  @Test func `Texts are stripped, then blank, length and limit are checked in this order`() {
    func error(_ text: String, _ rules: TextRules) -> String? {
      message { _ = try rules.apply(to: text, name: "h") }
    }
    #expect(error(" \u{a0}\n", .stripped(length: 3)) == "h cannot be blank")
    #expect(error("ab", .stripped(length: 3)) == "h is not length 3")
    #expect(error(" abc ", .stripped(length: 3)) == nil)
    #expect(error("abcd", .stripped(maximum: 3)) == "h is too long (limit: 3 characters)")
    #expect(error("", .verbatim()) == nil)
  }

  @Test func `A field of a body is named by its path`() throws {
    let body = Field(try JSON.parse(#"{"a":[{"b":1.0}],"c":"x","d":true}"#), path: "request")
    #expect(
      message { _ = try body["a"].elements()[0]["b"].integer() } == #"request["a"][0]["b"] is not an integer"#
    )
    #expect(message { _ = try body["c"].integer() } == #"request["c"] is not an integer"#)
    #expect(message { _ = try body["d"].integer() } == #"request["d"] is not an integer"#)
    #expect(message { _ = try body["a"].string() } == #"request["a"] is not a string"#)
    #expect(message { _ = try body["c"].elements() } == #"request["c"] is not a list"#)
    #expect(message { _ = try body["c"].members() } == #"request["c"] is not a dict"#)
    #expect(message { _ = try body["c"].bool() } == #"request["c"] is not a boolean"#)
    #expect(message { _ = try body["x"].string() } == #"request["x"] field is missing"#)
    #expect(
      message { try body.forbidMembers(except: ["a", "c"]) } == #"Argument "d" at request["d"] is unexpected"#
    )
    #expect(body["x"].present == nil)
  }
}
