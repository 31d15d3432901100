import Foundation
import Testing

/// Pages that quote what was measured: the numbers count, whatever the words around them are.
@Suite struct FiguresTests {
  private func page(_ name: String) throws -> String {
    try String(
      contentsOf: URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../\(name)"),
      encoding: .utf8)
  }

  @Test(arguments: ["README.md", "Documentation/Sizing.md"])
  func `What a notification costs is the latest figure of Benchmarks`(_ name: String) throws {
    let measured = try page("Documentation/Benchmarks.md")
    let time = try #require(
      measured.firstMatch(of: /\| push-bouncer, 1 a request \|\s+\|\s+\| (\d+) \(/)?.output.1)
    #expect(try page(name).matches(of: /(\d+)\sµs/).contains { $0.output.1 == time })
  }

  @Test(arguments: ["Documentation/Sizing.md", "Documentation/Benchmarks.md"])
  func `The memory that the README names stands in the pages on it`(_ name: String) throws {
    let figures = { try page($0).matches(of: /(\d+)\sMB/).map(\.output.1) }
    let named = try figures("README.md")
    #expect(try !named.isEmpty && Set(named).isSubset(of: figures(name)))
  }
}
