import Testing

@testable import Fuzzing

/// Tests that a parser whose time grows with the square of the input is detected.
@Suite struct GrowthTests {
  private static func input(_ piece: String, _ count: Int = 20_000) -> [UInt8] {
    Array("{\"a\": [\(String(repeating: piece, count: count))1]}".utf8)
  }

  private static func excess(_ bytes: [UInt8], _ time: (Double) -> Double) -> [Int]? {
    Growth.excess(of: bytes, taking: time(Double(bytes.count))) { time(Double($0.count)) }?.map(\.bytes)
  }

  @Test(arguments: ["1", "1,", "\"name\", "])
  func `A parser that copies all for each of its bytes is found`(_ piece: String) throws {
    let input = Self.input(piece)
    let lengths = try #require(Self.excess(input) { 50_000 + 20 * $0 + $0 * $0 / 20 })
    #expect(lengths.count == 3 && lengths[0] == input.count)
    #expect(zip(lengths, lengths.dropFirst()).allSatisfy { Double($0) / Double($1) > 1.4 })
  }

  @Test func `A parser that takes its time in proportion is not`() {
    for time in [{ 1000 * $0 }, { 5e6 + 10 * $0 }, { 1000 * $0 + $0 * $0 / 1000 }] as [(Double) -> Double] {
      #expect(Self.excess(Self.input("1,"), time) == nil)
    }
  }

  @Test func `A limit that is passed on the way is not`() {
    for limit in [15_000.0, 25_000] {
      #expect(Self.excess(Self.input("1,")) { $0 > limit ? 1000 * $0 : 100 * $0 } == nil)
    }
  }

  @Test func `What is quick or short or repeats nothing says nothing`() {
    let square = { (length: Double) in length * length }
    #expect(Self.excess(Self.input("1,")) { square($0) / 1e4 } == nil)
    #expect(Self.excess(Self.input("1,", 1000), square) == nil)
    var byte: UInt8 = 1
    let mixed = (0..<40_000).map { index in
      byte = byte &* 181 &+ UInt8(truncatingIfNeeded: index >> 7)
      return byte
    }
    #expect(Self.excess(mixed, square) == nil)
  }

  @Test func `A machine that does something else for a while makes no finding`() {
    let input = Self.input("1,")
    var runs = 0
    let found = Growth.excess(of: input, taking: 1e9) { bytes in
      runs += 1
      let time = Double(bytes.count) * Double(bytes.count)
      return runs > 3 ? 1000 * Double(bytes.count) : time
    }
    #expect(found == nil && runs > 3)
  }

  @Test func `Half of the repeats keep what comes in groups`() throws {
    let input = Self.input("abc")
    let half = try #require(Growth.halved(input))
    #expect((input.count - half.count).isMultiple(of: 12) && half.count < input.count * 2 / 3)
    #expect(half.starts(with: "{\"a\": [abcabc".utf8) && half.suffix(9) == input.suffix(9))
  }
}
