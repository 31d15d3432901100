import NIOCore
import NIOHPACK

/// Writes the headers of requests as HPACK (RFC 7541). What requests have in common is sent once on a connection, and
/// is a number from then on; nothing is Huffman coded, which costs more than the bytes it saves.
struct HeaderCompressor {
  /// What requests use of the table that everybody knows (RFC 7541 appendix A).
  private static let known: [(name: String, value: String)] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"),
  ]
  private static let knownCount = 61

  /// What this connection knows by number, the latest last.
  private var table: [(name: String, value: String)] = []
  private var size = 0
  private var limit = 4096
  /// A new limit of which the peer's decoder is yet to be told.
  private var isLimitNew = false

  /// The peer remembers no more than this.
  mutating func limit(to size: Int) {
    // One that grows again is not needed.
    guard size < limit else { return }
    limit = size
    isLimitNew = true
    makeRoom(for: 0)
  }

  mutating func write(_ headers: HPACKHeaders, into buffer: inout ByteBuffer) {
    if isLimitNew {
      Self.write(limit, bits: 5, of: 0x20, into: &buffer)
      isLimitNew = false
    }
    for (name, value, indexing) in headers { write(name, value, indexing, into: &buffer) }
  }

  private mutating func write(
    _ name: String, _ value: String, _ indexing: HPACKIndexing, into buffer: inout ByteBuffer
  ) {
    if indexing == .indexable, let index = index(of: name, value) {
      Self.write(index, bits: 7, of: 0x80, into: &buffer)
      return
    }
    let cost = name.utf8.count + value.utf8.count + 32
    let isKept = indexing == .indexable && cost <= limit
    let nameIndex = Self.knownIndex(of: name)
    switch indexing {
    case .indexable where isKept: Self.write(nameIndex, bits: 6, of: 0x40, into: &buffer)
    case .neverIndexed: Self.write(nameIndex, bits: 4, of: 0x10, into: &buffer)
    default: Self.write(nameIndex, bits: 4, of: 0, into: &buffer)
    }
    if nameIndex == 0 { Self.write(name, into: &buffer) }
    Self.write(value, into: &buffer)
    guard isKept else { return }
    makeRoom(for: cost)
    table.append((name, value))
    size += cost
  }

  private func index(of name: String, _ value: String) -> Int? {
    if let index = table.lastIndex(where: { $0.value == value && $0.name == name }) {
      return Self.knownCount + table.count - index
    }
    guard name.first == ":" else { return nil }
    return Self.known.firstIndex { $0.name == name && $0.value == value }.map { $0 + 1 }
  }

  private static func knownIndex(of name: String) -> Int {
    switch name {
    case ":authority": 1
    case ":path": 4
    case "authorization": 23
    case "content-type": 31
    default: 0
    }
  }

  private mutating func makeRoom(for cost: Int) {
    while size + cost > limit, let oldest = table.first {
      size -= oldest.name.utf8.count + oldest.value.utf8.count + 32
      table.removeFirst()
    }
  }

  /// A number behind the first bits of a byte (RFC 7541 section 5.1).
  private static func write(_ number: Int, bits: Int, of first: UInt8, into buffer: inout ByteBuffer) {
    let most = 1 << bits - 1
    guard number >= most else {
      buffer.writeInteger(first | UInt8(number))
      return
    }
    buffer.writeInteger(first | UInt8(most))
    var rest = number - most
    while rest >= 0x80 {
      buffer.writeInteger(UInt8(rest & 0x7f) | 0x80)
      rest >>= 7
    }
    buffer.writeInteger(UInt8(rest))
  }

  private static func write(_ text: String, into buffer: inout ByteBuffer) {
    write(text.utf8.count, bits: 7, of: 0, into: &buffer)
    buffer.writeString(text)
  }
}
