import CoreMetrics
import Platform
import Synchronization
import Testing

@testable import Basics
@testable import Operator

@Suite struct PrometheusRegistryTests {
  private let registry = PrometheusRegistry()

  private func lines() async -> [String] {
    await registry.text().split(separator: "\n").map(String.init)
  }

  @Test func `Nothing is written of nothing`() async {
    #expect(await registry.text() == "")
  }

  @Test func `A counter has help type and one line per labels`() async {
    registry.makeCounter(label: "push_bouncer_calls_total", dimensions: [("route", "b")]).increment(by: 2)
    registry.makeCounter(label: "push_bouncer_calls_total", dimensions: [("route", "a")]).increment(by: 40)
    registry.makeCounter(label: "push_bouncer_calls_total", dimensions: [("route", "a")]).increment(by: 1)
    #expect(
      await registry.text() == """
        # HELP push_bouncer_calls_total push_bouncer_calls_total
        # TYPE push_bouncer_calls_total counter
        push_bouncer_calls_total{route="a"} 41
        push_bouncer_calls_total{route="b"} 2

        """)
  }

  @Test func `The order of labels makes no other series`() async {
    registry.makeCounter(label: "c", dimensions: [("x", "1"), ("y", "2")]).increment(by: 1)
    registry.makeCounter(label: "c", dimensions: [("y", "2"), ("x", "1")]).increment(by: 1)
    #expect(await lines().last == #"c{x="1",y="2"} 2"#)
  }

  @Test func `Labels are escaped and names cleaned`() async {
    registry.makeCounter(label: "9.of-them", dimensions: [("a.b", "x\"y\\z\nü")]).increment(by: 1)
    #expect(await lines().last == #"_9_of_them{a_b="x\"y\\z\nü"} 1"#)
  }

  @Test func `Labels that look alike are not the same`() async {
    registry.makeCounter(label: "c", dimensions: [("a", "1\",b=\"2")]).increment(by: 1)
    registry.makeCounter(label: "c", dimensions: [("a", "1"), ("b", "2")]).increment(by: 5)
    #expect(Set(await lines().suffix(2)) == [#"c{a="1\",b=\"2"} 1"#, #"c{a="1",b="2"} 5"#])
  }

  @Test func `A histogram's buckets add up`() async {
    let timer = registry.makeTimer(label: "seconds", dimensions: [("route", "a")])
    timer.recordNanoseconds(500_000)
    timer.recordNanoseconds(3_000_000)
    timer.recordNanoseconds(2_000_000_000)
    timer.recordNanoseconds(120_000_000_000)
    let lines = await lines()
    #expect(lines[1] == "# TYPE seconds histogram")
    #expect(lines.contains(#"seconds_bucket{route="a",le="0.0005"} 1"#))
    #expect(lines.contains(#"seconds_bucket{route="a",le="0.0025"} 1"#))
    #expect(lines.contains(#"seconds_bucket{route="a",le="0.005"} 2"#))
    #expect(lines.contains(#"seconds_bucket{route="a",le="2.5"} 3"#))
    #expect(lines.contains(#"seconds_bucket{route="a",le="60"} 3"#))
    #expect(lines.contains(#"seconds_bucket{route="a",le="+Inf"} 4"#))
    #expect(lines.contains(#"seconds_sum{route="a"} 122.0035"#))
    #expect(lines.contains(#"seconds_count{route="a"} 4"#))
    #expect(lines.count == 2 + MetricDescription.bounds.count + 1 + 2)
  }

  @Test func `Recorders are distributions when aggregated`() async {
    registry.makeRecorder(label: "all", dimensions: [], aggregate: true).record(Int64(2))
    let lines = await lines()
    #expect(lines.contains("# TYPE all histogram") && lines.contains("all_count 1"))
  }

  @Test(arguments: [(2.5, "2.5"), (3, "3"), (.infinity, "+Inf"), (-.infinity, "-Inf"), (.nan, "NaN")])
  func `A value is what was recorded last`(_ value: Double, _ text: String) async {
    let depth = registry.makeRecorder(label: "depth", dimensions: [], aggregate: false)
    depth.record(7.5)
    depth.record(value)
    #expect(await lines().suffix(2) == ["# TYPE depth gauge", "depth \(text)"])
  }

  @Test func `A name stays what it was first`() async {
    registry.makeCounter(label: "name", dimensions: []).increment(by: 1)
    registry.makeRecorder(label: "name", dimensions: [], aggregate: false).record(Int64(9))
    #expect(await lines() == ["# HELP name name", "# TYPE name counter", "name 1"])
  }

  @Test func `Gauges are read when somebody looks`() async {
    let depth = Mutex(1.0)
    registry.gauges("push_bouncer_depth") {
      [.init(depth.withLock(\.self), labels: [("kind", "a")]), .init(0)]
    }
    #expect(await lines().suffix(2) == [#"push_bouncer_depth{kind="a"} 1"#, "push_bouncer_depth 0"])
    depth.withLock { $0 = 7 }
    #expect(await lines().contains(#"push_bouncer_depth{kind="a"} 7"#))
    #expect(await lines().contains("# TYPE push_bouncer_depth gauge"))
  }

  /// Builds for tests have a commit if `PUSH_BOUNCER_COMMIT` says one.
  @Test func `The build is told by its version and its commit`() async {
    registry.watchProcess()
    let (version, commit) = (Version.number, Version.commit ?? "")
    #expect(
      await lines().contains(#"push_bouncer_build_info{version="\#(version)",commit="\#(commit)"} 1"#))
  }

  @Test func `Many series and threads lose no count`() async {
    let registry = registry
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<4 {
        group.addTask {
          for number in 0..<5000 {
            registry.makeCounter(label: "c", dimensions: [("n", "\(number)")]).increment(by: 1)
          }
        }
      }
    }
    let lines = await lines()
    #expect(lines.count == 5002)
    #expect(lines.dropFirst(2).allSatisfy { $0.hasSuffix(" 4") })
  }
}
