import Foundation

/// Checks how time grows with an input that repeats a piece, by comparing it with half and a quarter of the
/// repeats. A limit for the time itself would have to allow for the slowest target and machine.
package enum Growth {
  /// Times below this are too short to compare, in nanoseconds.
  private static let leastTime = 4_000_000.0
  /// The largest permitted exponent of the growth: 1 is linear, 2 quadratic.
  private static let power = 1.6
  private static let longestPiece = 64
  /// Repeats are left out in multiples of this, so that encodings in groups of bytes, such as base64, stay
  /// valid.
  private static let group = 192

  /// The lengths and the times (in nanoseconds) of an input, half and a quarter of it, if the time grows too fast.
  ///
  /// - Parameter run: gives the time for an input.
  package static func excess(of bytes: [UInt8], taking time: Double, run: ([UInt8]) -> Double)
    -> [(bytes: Int, time: Double)]?
  {
    guard time >= leastTime, let half = halved(bytes), let quarter = halved(half),
      quarter.count > longestInParts
    else { return nil }
    let inputs = [bytes, half, quarter]
    var times = [Double](repeating: .infinity, count: inputs.count)
    // Several measurements, because another program may disturb one of them but hardly all.
    for _ in 0..<8 {
      for (index, input) in inputs.enumerated() { times[index] = min(times[index], run(input)) }
      guard isTooFast(inputs.map(\.count), times) else { return nil }
    }
    return zip(inputs, times).map { ($0.count, $1) }
  }

  /// Whether both steps grow too fast. Passing a threshold, such as a buffer size, makes only one step large.
  static func isTooFast(_ lengths: [Int], _ times: [Double]) -> Bool {
    zip(lengths.indices, lengths.indices.dropFirst()).allSatisfy { long, short in
      times[long] / times[short] > pow(Double(lengths[long]) / Double(lengths[short]), power)
    }
  }

  /// Half of the repeats in the longest stretch that repeats a piece; nil where that leaves most of the input.
  static func halved(_ bytes: [UInt8]) -> [UInt8]? {
    guard let (stretch, period) = longestStretch(bytes) else { return nil }
    let unit = period * group
    let removed = stretch.count / 2 / unit * unit
    guard removed * 3 >= bytes.count else { return nil }
    return Array(bytes[..<stretch.lowerBound] + bytes[(stretch.lowerBound + removed)...])
  }

  private static func longestStretch(_ bytes: [UInt8]) -> (Range<Int>, period: Int)? {
    var longest: (stretch: Range<Int>, period: Int)?
    for period in 1...longestPiece where period < bytes.count {
      var start = 0
      for index in period...bytes.count where index == bytes.count || bytes[index] != bytes[index - period] {
        if index - start > longest?.stretch.count ?? period { longest = (start..<index, period) }
        start = index - period + 1
      }
      // No other can be longer.
      if let longest, longest.stretch.count > bytes.count / 2 { break }
    }
    return longest
  }
}
