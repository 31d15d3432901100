import CoreMetrics
import Metrics
import Testing

@testable import Operations

@Suite struct PrometheusTests {
  private let registry = PrometheusRegistry()

  @Test func `Counters and gauges are written with their kind`() async {
    let counter = Counter(label: "push_bouncer_things_total", dimensions: [("kind", "a")], factory: registry)
    counter.increment(by: 2)
    counter.increment()
    Gauge(label: "push_bouncer_depth", factory: registry).record(2.5)
    #expect(
      await registry.text() == """
        # HELP push_bouncer_depth depth
        # TYPE push_bouncer_depth gauge
        push_bouncer_depth 2.5
        # HELP push_bouncer_things_total things
        # TYPE push_bouncer_things_total counter
        push_bouncer_things_total{kind="a"} 3

        """)
  }

  @Test func `A histogram's buckets count everything up to their bound`() async {
    let timer = Timer(label: "push_bouncer_wait_seconds", factory: registry)
    timer.recordMilliseconds(1)
    timer.recordMilliseconds(700)
    timer.recordSeconds(3600)
    let lines = await registry.text().split(separator: "\n").map(String.init)
    #expect(lines.contains("# TYPE push_bouncer_wait_seconds histogram"))
    #expect(lines.contains(#"push_bouncer_wait_seconds_bucket{le="0.0005"} 0"#))
    #expect(lines.contains(#"push_bouncer_wait_seconds_bucket{le="0.001"} 1"#))
    #expect(lines.contains(#"push_bouncer_wait_seconds_bucket{le="0.5"} 1"#))
    #expect(lines.contains(#"push_bouncer_wait_seconds_bucket{le="1"} 2"#))
    #expect(lines.contains(#"push_bouncer_wait_seconds_bucket{le="60"} 2"#))
    #expect(lines.contains(#"push_bouncer_wait_seconds_bucket{le="+Inf"} 3"#))
    #expect(lines.contains("push_bouncer_wait_seconds_count 3"))
    #expect(lines.contains { $0.hasPrefix("push_bouncer_wait_seconds_sum 3600.70") })
  }

  @Test func `Names are cleaned and values escaped`() async {
    let dimensions = [("9 x", "a\"b\\c\nd")]
    Counter(label: "some.thing-else", dimensions: dimensions, factory: registry).increment()
    #expect(await registry.text().contains(#"some_thing_else{_9_x="a\"b\\c\nd"} 1"#))
  }

  @Test func `The same label is the same series, and destroying it loses nothing`() async {
    let counter = Counter(label: "things_total", factory: registry)
    counter.increment()
    counter.destroy()
    Counter(label: "things_total", factory: registry).increment()
    #expect(await registry.text().contains("things_total 2\n"))
  }

  @Test func `A name that is taken by another kind is not written twice`() async {
    Counter(label: "things", factory: registry).increment()
    Gauge(label: "things", factory: registry).record(5)
    let text = await registry.text()
    #expect(text.contains("# TYPE things counter\nthings 1\n"))
    #expect(text.ranges(of: "# TYPE things").count == 1)
  }

  @Test func `Values that are read on demand are read each time`() async {
    registry.gauges("push_bouncer_depth") {
      [.init(1, labels: [("kind", "a")]), .init(2, labels: [("kind", "b")])]
    }
    let text = await registry.text()
    #expect(text.contains("# TYPE push_bouncer_depth gauge\n"))
    #expect(text.contains("push_bouncer_depth{kind=\"a\"} 1\npush_bouncer_depth{kind=\"b\"} 2\n"))
  }

  @Test func `Increments from many tasks at once are all counted`() async {
    let (counter, timer) = (
      Counter(label: "c_total", factory: registry), Timer(label: "t_seconds", factory: registry)
    )
    await withTaskGroup(of: Void.self) { tasks in
      for _ in 0..<8 {
        tasks.addTask {
          for _ in 0..<1000 {
            counter.increment()
            timer.recordNanoseconds(1)
          }
        }
      }
    }
    let text = await registry.text()
    #expect(text.contains("c_total 8000\n"))
    #expect(text.contains("t_seconds_count 8000\n"))
  }
}
