import Foundation

/// A chart of bars or lines as inline SVG, 1000 by 100 units, with a text for what it shows.
struct Chart: Sendable {
  struct Bar: Sendable {
    struct Part: Sendable {
      let style: String
      let x: Double
      let y: Double
      let width: Double
      let height: Double
    }

    let title: String
    let parts: [Part]
  }

  struct Line: Sendable {
    let style: String
    let points: String
  }

  /// What a colour means.
  struct Legend: Sendable {
    let style: String
    let text: String
  }

  /// Describes the chart for screen readers.
  let label: String
  /// The labels below the left and the right end.
  let left: String
  let right: String
  /// Left out if the chart is empty.
  let legend: [Legend]
  var bars: [Bar] = []
  var lines: [Line] = []
  var hasValues = false

  init(label: String, left: String, right: String, legend: [Legend]) {
    self.label = label
    self.left = left
    self.right = right
    self.legend = legend
  }

  /// Adds bars, whose parts are stacked from the bottom up.
  mutating func draw(_ stacks: [(title: String, parts: [(style: String, value: Double)])]) {
    let most = stacks.map { $0.parts.reduce(0) { $0 + $1.value } }.max() ?? 0
    guard most > 0 else { return }
    hasValues = true
    let width = 1000 / Double(stacks.count)
    let gap = min(width * 0.2, 6)
    bars = stacks.enumerated().map { index, stack in
      var top = 100.0
      let parts = stack.parts.filter { $0.value > 0 }.map { part in
        // A value above zero is always visible.
        let height = max(part.value / most * 100, 1)
        top -= height
        return Bar.Part(
          style: part.style, x: Self.rounded(Double(index) * width), y: Self.rounded(max(top, 0)),
          width: Self.rounded(width - gap), height: Self.rounded(height))
      }
      return Bar(title: stack.title, parts: parts)
    }
  }

  /// Adds lines of values in order; a nil leaves a gap.
  mutating func draw(lines: [(style: String, values: [Double?])]) {
    let most = lines.flatMap { $0.values.compactMap(\.self) }.max() ?? 0
    guard most > 0 else { return }
    hasValues = true
    for line in lines {
      let step = 1000 / Double(max(line.values.count - 1, 1))
      let runs = line.values.enumerated().reduce(into: [[(x: Double, y: Double)]()]) { runs, point in
        guard let value = point.element else { return runs.append([]) }
        runs[runs.count - 1].append((Double(point.offset) * step, 98 - value / most * 96))
      }
      for run in runs {
        guard let last = run.last else { continue }
        // A single point is drawn as a short line.
        let points = (run.count > 1 ? run : [(max(last.x - 8, 0), last.y), (max(last.x, 8), last.y)])
          .map { "\(Self.rounded($0.x)),\(Self.rounded($0.y))" }.joined(separator: " ")
        self.lines.append(Line(style: line.style, points: points))
      }
    }
  }

  private static func rounded(_ value: Double) -> Double { (value * 10).rounded() / 10 }
}
