/// A place in the bytes of a file that moves on to its end, and the line that it is in.
struct Cursor {
  let bytes: [UInt8]
  private(set) var place = 0
  /// Counted from 1.
  private(set) var line = 1

  init(_ bytes: [UInt8]) { self.bytes = bytes }

  var isAtEnd: Bool { place >= bytes.count }

  /// The byte here, or so many further on; zero where there is none.
  func byte(_ offset: Int = 0) -> UInt8 {
    bytes.indices.contains(place + offset) ? bytes[place + offset] : 0
  }

  func has(_ text: StaticString) -> Bool { text.withUTF8Buffer { bytes[place...].starts(with: $0) } }

  mutating func advance(_ count: Int = 1) {
    for _ in 0..<min(count, bytes.count - place) {
      if bytes[place] == "\n" { line += 1 }
      place += 1
    }
  }

  /// Passes over bytes of a kind, and returns them.
  @discardableResult mutating func skip(while isPart: (UInt8) -> Bool) -> ArraySlice<UInt8> {
    let start = place
    while place < bytes.count, isPart(bytes[place]) { advance() }
    return bytes[start..<place]
  }

  /// Passes over a text and all that stands before it, or the rest of the file, and returns what stands before it.
  @discardableResult mutating func skip(behind text: StaticString) -> ArraySlice<UInt8> {
    let start = place
    while !isAtEnd, !has(text) { advance() }
    defer { advance(text.utf8CodeUnitCount) }
    return bytes[start..<place]
  }
}
