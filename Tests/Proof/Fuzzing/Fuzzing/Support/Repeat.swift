/// Makes a long input from a short one by repeating a piece in place, so that a valid input often stays
/// valid. Such inputs show time that grows faster than the length, and random mutations would never produce
/// them.
package func repeatPiece(_ bytes: inout [UInt8], limit: Int, seed: UInt64) {
  guard !bytes.isEmpty, bytes.count < limit else { return }
  var state = seed &* 0x9E37_79B9_7F4A_7C15 &+ 1
  func random(_ bound: Int) -> Int {
    state ^= state << 13
    state ^= state >> 7
    state ^= state << 17
    return Int(state % UInt64(bound))
  }
  let start = random(bytes.count)
  // Short pieces mostly, sometimes any.
  let length = 1 + random(min(bytes.count - start, random(4) == 0 ? .max : 16))
  let target = limit >> random(6)
  guard target > bytes.count + length else { return }
  let piece = Array(bytes[start..<start + length])
  let repeats = (target - bytes.count) / length
  bytes.insert(contentsOf: repeatElement(piece, count: repeats).joined(), at: start)
}
