import Foundation
import Platform
import Testing

@testable import Operator

@Suite struct MetricDescriptionTests {
  private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

  @Test func `Every metric that the sources name is described, and nothing else is`() throws {
    let sources = Self.root.appending(path: "Sources")
    let files = try #require(FileManager.default.enumerator(at: sources, includingPropertiesForKeys: nil))
    var named: Set<String> = []
    for case let file as URL in files where file.pathExtension == "swift" {
      guard !file.lastPathComponent.hasPrefix("MetricDescription") else { continue }
      let text = try String(contentsOf: file, encoding: .utf8)
        .replacing(/static let metrics: \[MetricDescription\] = \[(?s:.*?)\n  \]\n/, with: "")
      for match in text.matches(of: /"((push_bouncer|process)_[a-z_]+[a-z])"/) {
        named.insert(String(match.1))
      }
    }
    #expect(named == Set(MetricDescription.all.map(\.name)))
  }

  @Test(arguments: MetricDescription.all.map(\.name))
  func `A description is a sentence, and the name says the unit`(name: String) throws {
    let metric = try #require(MetricDescription.of(name))
    #expect(metric.help.hasSuffix(".") && !metric.help.contains("|") && metric.help.count > 20)
    #expect((metric.kind == .counter) == name.hasSuffix("_total"))
    if metric.kind == .histogram { #expect(name.hasSuffix("_seconds")) }
    #expect(metric.bounds == metric.bounds.sorted() && Set(metric.bounds).count == metric.bounds.count)
  }

  @Test func `The process and the build are shown under their usual names`() async throws {
    let registry = PrometheusRegistry()
    registry.watchProcess(start: Date(timeIntervalSince1970: 1_800_000_000))
    let lines = await registry.text().split(separator: "\n").map(String.init)
    func value(_ name: String) throws -> Double {
      let line = try #require(lines.first { $0.hasPrefix("\(name) ") })
      return try #require(Double(line.split(separator: " ")[1]))
    }
    #expect(try value("process_cpu_seconds_total") > 0)
    #expect(lines.contains("# TYPE process_cpu_seconds_total counter"))
    #expect(try value("process_resident_memory_bytes") > 1_000_000)
    #expect(try value("process_open_fds") >= 3)
    #expect(try value("process_max_fds") >= value("process_open_fds"))
    #expect(try value("process_start_time_seconds") == 1_800_000_000)
    #expect(lines.contains { $0.hasPrefix(#"push_bouncer_build_info{commit=""#) || $0.contains("version=") })
  }
}
