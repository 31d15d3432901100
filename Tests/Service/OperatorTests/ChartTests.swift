import Testing

@testable import Operator

@Suite struct ChartTests {
  @Test(
    arguments: [
      ([1, 2, 0], ["0.0,50.0 500.0,2.0 1000.0,98.0"]),
      // A single point is a short line, which stays in the picture.
      ([5], ["0.0,2.0 8.0,2.0"]),
      ([4, nil, 4, nil, 4], ["0.0,2.0 8.0,2.0", "492.0,2.0 500.0,2.0", "992.0,2.0 1000.0,2.0"]),
    ] as [([Double?], [String])])
  func `Lines run from one edge to the other, and stop where nothing is known`(
    values: [Double?], points: [String]
  ) {
    var chart = Chart(label: "", left: "", right: "", legend: [])
    chart.draw(lines: [("a", values)])
    #expect(chart.lines.map(\.points) == points && chart.hasValues)
  }
}
