internal import Foundation

/// Bar and line charts as inline SVG, with a text for what they show.
enum Chart {
  /// One bar, whose parts are stacked from the bottom up.
  struct Bar {
    let title: String
    let parts: [(style: String, value: Double)]

    var total: Double { parts.reduce(0) { $0 + $1.value } }
  }

  /// - Parameters:
  ///   - label: describes the chart for screen readers.
  ///   - ends: the labels below the left and the right end.
  ///   - legend: what the colours mean; left out if the chart is empty.
  static func bars(_ bars: [Bar], label: String, ends: (String, String), legend: HTML) -> HTML {
    let most = bars.map(\.total).max() ?? 0
    guard most > 0 else { return "<p class=\"faint\">Nothing yet.</p>" }
    let width = 1000 / Double(bars.count)
    let gap = min(width * 0.2, 6)
    let shapes = bars.enumerated().map { index, bar -> HTML in
      var top = 100.0
      let parts = bar.parts.filter { $0.value > 0 }.map { part -> HTML in
        // A value above zero is always visible.
        let height = max(part.value / most * 100, 1)
        top -= height
        return
          "<rect class=\"\(part.style)\" x=\"\(Double(index) * width)\" y=\"\(max(top, 0))\" width=\"\(width - gap)\" height=\"\(height)\"/>"
      }
      return "<g><title>\(bar.title)</title>\(parts)</g>"
    }
    return svg("\(shapes)", label: label, ends: ends, legend: legend)
  }

  /// Draws lines of values in order; a nil leaves a gap.
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
        // A single point is drawn as a short line.
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
