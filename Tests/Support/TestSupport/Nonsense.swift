/// Bodies that are almost right, or not at all; the same ones for the same seed.
package struct Nonsense {
  private static let common = [
    "null", "true", "-1", "1e999", "99999999999999999999", "\"\"", "[]", "{}", "[[[[", "\\u0000", "\\ud800",
    "%00", "%ff", "%0A", "%", "&", "=", "+", "\0", "\u{feff}", "\u{202e}", "'", "\"", ";--",
    "9223372036854775807", "-9223372036854775808", "0.5", "1.0", "\u{1f4a9}",
  ]

  private var generator: SplitMix
  private let snippets: [[UInt8]]

  /// - Parameter snippets: what else may be put into a body.
  package init(seed: UInt64, snippets: [String] = []) {
    generator = SplitMix(seed: seed)
    self.snippets = (Self.common + snippets).map { Array($0.utf8) }
  }

  /// One of these with up to four changes, or now and then something else altogether.
  package mutating func body(from seeds: [[UInt8]]) -> [UInt8] {
    guard var body = seeds.randomElement(using: &generator), Int.random(in: 0..<10, using: &generator) > 0
    else {
      return (0..<Int.random(in: 0..<200, using: &generator)).map { _ in
        UInt8.random(in: 0...255, using: &generator)
      }
    }
    for _ in 0..<Int.random(in: 1...4, using: &generator) { mutate(&body) }
    return body
  }

  private mutating func mutate(_ body: inout [UInt8]) {
    let start = Int.random(in: 0...body.count, using: &generator)
    let end = min(body.count, start + Int.random(in: 0..<12, using: &generator))
    switch Int.random(in: 0..<6, using: &generator) {
    case 0: body.removeSubrange(start..<end)
    case 1: body.insert(contentsOf: snippets.randomElement(using: &generator) ?? [], at: start)
    case 2: body.replaceSubrange(start..<end, with: snippets.randomElement(using: &generator) ?? [])
    case 3: body.insert(contentsOf: body[start..<end], at: end)
    case 4: body = Array(body[..<start])
    default: if start < body.count { body[start] = UInt8.random(in: 0...255, using: &generator) }
    }
  }
}
