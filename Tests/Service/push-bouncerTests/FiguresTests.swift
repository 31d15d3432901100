import Foundation
import Testing

/// Pages that quote what was measured.
@Suite struct FiguresTests {
  private func page(_ name: String) throws -> String {
    try String(
      contentsOf: URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../\(name)"),
      encoding: .utf8)
  }

  @Test(arguments: ["README.md", "Documentation/Sizing.md"])
  func `What a notification costs, and the memory, are the latest figures of Benchmarks`(_ name: String)
    throws
  {
    let measured = try page("Documentation/Benchmarks.md")
    let time = try #require(
      measured.firstMatch(of: /\| push-bouncer, 1 a request \|\s+\|\s+\| (\d+) \(/)?.output.1)
    let memory = try #require(measured.firstMatch(of: /(\d+) MB idle/)?.output.1)
    let text = try page(name)
    #expect(text.matches(of: /(\d+) µs\sof\sCPU\stime/).map(\.output.1) == [time])
    #expect(text.matches(of: /(\d+) MB (?:of\smemory\sidle|without\sload)/).map(\.output.1) == [memory])
  }
}
