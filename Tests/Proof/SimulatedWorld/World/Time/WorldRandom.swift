/// Random numbers that follow from a seed (SplitMix64).
struct WorldRandom: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) { state = seed &* 0x9E37_79B9_7F4A_7C15 ^ 0xD1B5_4A32_D192_ED03 }

  /// A separate stream for a name, independent of the numbers that other streams have given.
  init(seed: UInt64, _ name: String) {
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    for byte in name.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    self.init(seed: seed ^ hash)
  }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }

  mutating func int(in range: ClosedRange<Int>) -> Int {
    range.lowerBound + Int(next() % UInt64(range.count))
  }

  mutating func chance(_ probability: Double) -> Bool { unit() < probability }
  /// From 0 to 1.
  mutating func unit() -> Double { Double(next() >> 11) / Double(1 << 53) }
  mutating func seconds(_ range: ClosedRange<Double>) -> Double {
    range.lowerBound + unit() * (range.upperBound - range.lowerBound)
  }
  mutating func pick<Element>(_ elements: [Element]) -> Element { elements[int(in: 0...elements.count - 1)] }
}
