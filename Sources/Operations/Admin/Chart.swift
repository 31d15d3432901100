internal import Foundation

/// Bars and lines as inline SVG, with what they show in words beside them.
enum Chart {
  /// One bar of a chart, from the bottom up.
  struct Bar {
    let title: String
    let parts: [(style: String, value: Double)]

    var total: Double { parts.reduce(0) { $0 + $1.value } }
  }

  /// - Parameters:
  ///   - label: what it shows, for who does not see it.
  ///   - ends: what stands below its left and right end.
  ///   - legend: what its colours mean; not shown where there is nothing to be seen.
  static func bars(_ bars: [Bar], label: String, ends: (String, String), legend: HTML) -> HTML {
    let most = bars.map(\.total).max() ?? 0
    guard most > 0 else { return "<p class=\"faint\">Nothing yet.</p>" }
    let width = 1000 / Double(max(bars.count, 1))
    let gap = min(width * 0.2, 6)
    let shapes = bars.enumerated().map { index, bar -> HTML in
      var top = 100.0
      let parts = bar.parts.filter { $0.value > 0 }.map { part -> HTML in
        // Something is never drawn as nothing.
        let height = max(part.value / most * 100, 1)
        top -= height
        return
          "<rect class=\"\(part.style)\" x=\"\(Double(index) * width)\" y=\"\(max(top, 0))\" width=\"\(width - gap)\" height=\"\(height)\"/>"
      }
      return "<g><title>\(bar.title)</title>\(parts)</g>"
    }
    return svg("\(shapes)", label: label, ends: ends, legend: legend)
  }

  /// Lines of values in order; where there is none a line stops.
  static func lines(
    _ lines: [(style: String, values: [Double?])], label: String, ends: (String, String), legend: HTML
  ) -> HTML {
    let most = lines.flatMap { $0.values.compactMap(\.self) }.max() ?? 0
    guard most > 0 else { return "<p class=\"faint\">Nothing yet.</p>" }
    let shapes = lines.map { line -> HTML in
      let step = 1000 / Double(max(line.values.count - 1, 1))
      let runs = line.values.enumerated().reduce(into: [[(x: Double, y: Double)]()]) { runs, point in
        guard let value = point.element else { return runs.append([]) }
        runs[runs.count - 1].append((Double(point.offset) * step, 98 - value / most * 96))
      }
      let parts = runs.compactMap { run -> HTML? in
        guard let last = run.last else { return nil }
        // A point by itself is a short line.
        let points = (run.count > 1 ? run : [(max(last.x - 8, 0), last.y), (max(last.x, 8), last.y)])
          .map { "\(rounded($0.x)),\(rounded($0.y))" }.joined(separator: " ")
        return "<polyline class=\"\(line.style)\" points=\"\(points)\"/>"
      }
      return "\(parts)"
    }
    return svg("\(shapes)", label: label, ends: ends, legend: legend)
  }

  private static func rounded(_ value: Double) -> Double { (value * 10).rounded() / 10 }

  private static func svg(_ shapes: HTML, label: String, ends: (String, String), legend: HTML) -> HTML {
    """
    <svg viewBox="0 0 1000 100" preserveAspectRatio="none" role="img" aria-label="\(label)">
    <line class="g" x1="0" y1="99.5" x2="1000" y2="99.5"/>
    \(shapes)
    </svg>
    <div class="axis"><span>\(ends.0)</span><span>\(ends.1)</span></div>
    <p class="faint">\(legend)</p>
    """
  }
}
