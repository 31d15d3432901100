import Foundation
import HTTP
import HTTPTypes
import Hummingbird
import NIOCore
import Synchronization
import Testing

@Suite struct PageTemplatesTests {
  private struct Model: PageModel {
    struct Entry {
      let text: String
      var note: String?
    }

    let text: String
    let note: String
    let entries: [Entry]
  }

  private static let model = Model(
    text: "<b>\"'&`\u{202E}\u{0}", note: "outer",
    entries: [.init(text: "one", note: "own"), .init(text: "two")])

  private static func response(_ template: String) -> Response {
    PageTemplates(
      ["page": Array(template.utf8), "part": Array("[{{text}}]\n".utf8)], sheet: Array("p{}".utf8)
    )
    .response("page", model)
  }

  private static func text(_ template: String) async throws -> String {
    let writer = Writer()
    try await response(template).body.write(writer)
    return String(buffer: writer.buffer.withLock { $0 })
  }

  private final class Writer: ResponseBodyWriter {
    let buffer = Mutex(ByteBuffer())
    func write(_ part: ByteBuffer) async throws { buffer.withLock { _ = $0.writeImmutableBuffer(part) } }
    func finish(_ trailingHeaders: HTTPFields?) async throws {}
  }

  @Test func `Values are escaped, in parts of a page too`() async throws {
    let escaped = "&lt;b&gt;&quot;&#39;&amp;&#96;\\u202e\\u0000"
    #expect(try await Self.text("{{page.text}}") == escaped)
    #expect(try await Self.text("{{#page}}<i>{{> part}}</i>{{/page}}") == "<i>[\(escaped)]</i>")
  }

  @Test func `A name with a dot is looked up in the innermost value only`() async throws {
    let template =
      "{{#page}}{{#entries}}{{#.note}}({{text}} {{.}}){{/.note}}{{^.note}}({{text}}){{/.note}}{{/entries}}{{/page}}"
    #expect(try await Self.text(template) == "(one own)(two)")
    #expect(try await Self.text("{{#page}}{{#entries}}{{note}},{{/entries}}{{/page}}") == "own,outer,")
  }

  @Test func `The policy lets in the page's own sheet and nothing else`() throws {
    let headers = Self.response("<style>{{{sheet}}}</style>").headers
    #expect(
      headers[.contentSecurityPolicy] == """
        default-src 'none'; style-src 'sha256-gG2yISYereRMiG2lMXrbiUgi0Ubw9p7QCeWcroOvy9Y='; form-action 'self'; \
        frame-ancestors 'none'; base-uri 'none'
        """)
    #expect(headers[.cacheControl] == "no-store" && headers[.xContentTypeOptions] == "nosniff")
  }

  @Test(arguments: ["{{> other}}", "{{<other}}{{/other}}", "{{#page}}"])
  func `A template that is malformed, or includes one that is not there, ends the program`(_ text: String)
    async
  {
    await #expect(processExitsWith: .failure) { [text = text as String] in
      _ = PageTemplates(["page": Array(text.utf8)], sheet: [])
    }
  }

  /// A name that no value has is written as nothing.
  @Test func `Every name in a template is a property in the code beside it`() throws {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent()
    let files = try #require(
      FileManager.default.enumerator(at: root.appending(path: "Sources"), includingPropertiesForKeys: nil))
    var count = 0
    for case let file as URL in files where file.pathExtension == "mustache" {
      let folder = file.deletingLastPathComponent().deletingLastPathComponent()
      let code = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        .filter { $0.pathExtension == "swift" }.map { try String(contentsOf: $0, encoding: .utf8) }.joined()
      let template = try String(contentsOf: file, encoding: .utf8)
      for match in template.matches(of: /\{\{[#^]?\.?([A-Za-z.]+)\}\}/) {
        for name in match.1.split(separator: ".") where !["page", "content", "sheet"].contains(name) {
          let property = try Regex(#"\b(let|var) \#(name)\b"#)
          #expect(code.contains(property), "\(file.lastPathComponent): \(name)")
        }
      }
      #expect(
        template.matches(of: /\{\{\{/).count == template.matches(of: /\{\{\{sheet\}\}\}/).count,
        "\(file.lastPathComponent) writes a value as it is")
      count += 1
    }
    #expect(count > 10)
  }
}
