import Basics
import Foundation
import HTTPTypes
import Hummingbird
import NIOCore
import TestSupport
import Testing

@testable import HTTP

/// Tests that the cost of text from outside is linear in its bytes. Compared as `Character`s, this much of
/// any of these runs of combining marks takes several seconds.
@Suite struct TextCostTests {
  private static let bytes = 128 * 1024
  /// Generous for a debug build on a busy machine.
  private static let limit = 5.0

  @Test(arguments: HostileText.allCases)
  func `Names of members and fields are found at the cost of their bytes`(_ kind: HostileText) throws {
    let text = kind.text(bytes: Self.bytes)
    let seconds = try cpuSeconds {
      for name in [text, "a\(text)", "name\(text)"] {
        let field = Field(try JSON.parse("{\"\(name)\":1,\"name\":2,\"\(name)\":3}"), path: "request")
        #expect(try field["name"].integer() == 2)
        #expect(try field[name].integer() == 3)
        #expect(throws: APIError.self) { try field.forbidMembers(except: ["name"]) }
        let form = Form.encode([(name, "1"), ("name", "2"), (name, "3")])
        var parameters = Parameters(try #require(Form.parse(form)).map { ($0.name.text, $0.value) })
        #expect(parameters.optional("name") == "2")
        #expect(parameters.optional("names") == nil)
        #expect(parameters.success(noting: RequestNotes()).status == .ok)
      }
    }
    #expect(seconds < Self.limit)
  }

  @Test(arguments: HostileText.allCases)
  func `Values are judged at the cost of their bytes, and marks without end are no text`(
    _ kind: HostileText
  ) throws {
    let text = "a\(kind.text(bytes: Self.bytes))"
    let seconds = try cpuSeconds {
      let field = Field(try JSON.parse("[\"\(text)\"]"), path: "request").value.map { Field($0, path: "x") }
      let value = try #require(try field?.elements().first)
      #expect(value.value == .string(text))
      #expect(value.value != .string("a"))
      #expect(value.value?.string == nil || !kind.isUnfit)
      if kind.isUnfit { #expect(throws: APIError.self) { try value.string() } }
    }
    #expect(seconds < Self.limit)
  }

  @Test(arguments: [
    "", "plain", "Grüße", "Z\u{30d}\u{301}\u{316}a\u{334}", "नमस्ते", "한국어", "👨‍👩‍👧‍👦",
    "a\(String(repeating: "\u{301}", count: 30))b\(String(repeating: "\u{301}", count: 30))",
  ])
  func `Text that is written somewhere can be kept`(text: String) {
    #expect(text.isStorable)
  }

  @Test(arguments: [
    "\0", "a\0b", "a\(String(repeating: "\u{300}", count: 31))",
    "a\(String(repeating: "\u{301}", count: 31))",
    "a\(String(repeating: "\u{344}", count: 16))", "a\(String(repeating: "\u{f73}", count: 16))",
  ])
  func `Text that breaks databases and readers cannot be kept`(text: String) {
    #expect(!text.isStorable)
  }

  @Test func `Names are the same only if their bytes are`() throws {
    let (composed, decomposed) = ("\u{e9}", "e\u{301}")
    let object = try JSON.parse("{\"\(composed)\":1,\"\(decomposed)\":2}")
    #expect(object[composed] == 1)
    #expect(object[decomposed] == 2)
    #expect(Set([Name(composed), Name(decomposed), Name(composed)]).count == 2)
    #expect(JSON.string(composed) != JSON.string(decomposed))
  }

  @Test(arguments: HostileText.allCases)
  func `Headers are read at the cost of their bytes`(_ kind: HostileText) throws {
    let text = kind.text(bytes: Self.bytes)
    let seconds = cpuSeconds {
      for header in [text, "Bearer \(text)", "bearer\(text) x", "Basic \(text)", "Basic\(text) x"] {
        #expect(throws: APIError.self) {
          try BearerToken("token", name: "t").check(Self.request(header), from: .loopback)
        }
        #expect(throws: BasicCredentials.Fault.self) { try BasicCredentials(of: Self.request(header)) }
      }
    }
    #expect(seconds < Self.limit)
  }

  @Test(arguments: ["a\0:b", "a:b\0", "a\(String(repeating: "\u{301}", count: 31)):b"])
  func `Credentials are texts that can be kept`(text: String) {
    #expect(throws: BasicCredentials.Fault.self) {
      try BasicCredentials(of: Self.request("Basic \(Data(text.utf8).base64EncodedString())"))
    }
  }

  @Test func `Finding members costs twice as much in twice as many`() throws {
    func seconds(_ count: Int) throws -> Double {
      let text =
        "{" + (0..<count).map { "\"the_member_that_is_sought_\($0)\":true" }.joined(separator: ",") + "}"
      return try cpuSeconds {
        let field = Field(try JSON.parse(text), path: "request")
        try field.forbidMembers(except: Set((0..<count).map { Name("the_member_that_is_sought_\($0)") }))
        #expect(try field["the_member_that_is_sought_\(count / 2)"].bool())
      }
    }
    _ = try seconds(1000)
    let (once, twice) = (try seconds(40_000), try seconds(80_000))
    #expect(twice < 3 * once + 0.1)
  }

  @Test(
    arguments: ["%00", "a%00b", String(repeating: "%CD%84", count: 16)],
    [("/?text=VALUE", ""), ("/", "text=VALUE"), ("/", "a=1&other=VALUE&text=b")])
  func `A value with NUL or marks without end is refused by the parameter's name`(
    value: String, place: (uri: String, body: String)
  ) async throws {
    let request = Request(
      head: .init(
        method: .post, scheme: nil, authority: nil, path: place.uri.replacing("VALUE", with: value),
        headerFields: [.contentType: "application/x-www-form-urlencoded"]),
      body: .init(buffer: ByteBuffer(string: place.body.replacing("VALUE", with: value))))
    let error = await #expect(throws: APIError.self) {
      _ = try await Parameters.read(from: request, limit: 1000)
    }
    #expect(error?.status == .badRequest)
    #expect(error?.message.contains("has invalid format") == true)
  }

  private static func request(_ authorization: String) -> Request {
    Request(
      head: .init(
        method: .get, scheme: nil, authority: nil, path: "/", headerFields: [.authorization: authorization]),
      body: .init(buffer: ByteBuffer()))
  }
}
