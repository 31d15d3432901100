import Basics
import NIOCore
import NIOHPACK

/// Writes the header blocks of requests (HPACK, RFC 7541).
///
/// Without Huffman coding, which costs more than the bytes it saves. Of the static table it knows what our requests have. The
/// encoder of swift-nio, which is for headers of all kinds, takes four times the instructions, a twentieth of a push.
struct HeaderEncoder {
  private struct Entry {
    let name: String
    let value: String
    let size: Int

    init(_ name: String, _ value: String) {
      self.name = name
      self.value = value
      size = Self.size(name, value)
    }

    static func size(_ name: String, _ value: String) -> Int { name.utf8.count + value.utf8.count + 32 }
  }

  /// The number of entries in the static table, after which those of the dynamic table count.
  private static let staticEntries = 61

  /// The most bytes that the dynamic table may have.
  private(set) var limit = 4096
  /// The dynamic table, the newest entry first.
  private var entries: [Entry] = []
  private var size = 0
  /// Whether the peer has yet to hear that the table has become smaller.
  private var hasShrunk = false
  /// The block that is being written, which costs less here than in a `ByteBuffer`.
  private var block: [UInt8] = []

  /// Makes the dynamic table smaller.
  mutating func shrink(to limit: Int) {
    self.limit = limit
    hasShrunk = true
    evict(until: limit)
  }

  mutating func encode(_ headers: HPACKHeaders, to output: inout ByteBuffer) {
    block.removeAll(keepingCapacity: true)
    if hasShrunk { block.appendHPACK(limit, bits: 5, after: 0x20) }
    hasShrunk = false
    for (name, value, indexing) in headers {
      switch indexing {
      case .indexable:
        if let index = index(of: name, value) {
          block.appendHPACK(index, bits: 7, after: 0x80)
        } else {
          appendLiteral(name, value, bits: 6, after: 0x40)
          insert(Entry(name, value))
        }
      case .nonIndexable: appendLiteral(name, value, bits: 4, after: 0)
      case .neverIndexed: appendLiteral(name, value, bits: 4, after: 0x10)
      }
    }
    output.writeBytes(block)
  }

  private mutating func appendLiteral(_ name: String, _ value: String, bits: Int, after kind: UInt8) {
    if let index = index(of: name) {
      block.appendHPACK(index, bits: bits, after: kind)
    } else {
      block.append(kind)
      block.appendHPACK(name)
    }
    block.appendHPACK(value)
  }

  /// The index of a header that is in a table.
  private func index(of name: String, _ value: String) -> Int? {
    let size = Entry.size(name, value)
    // Few have the same size.
    if let place = entries.firstIndex(where: {
      $0.size == size && $0.value.hasBytes(of: value) && $0.name.hasBytes(of: name)
    }) {
      return Self.staticEntries + 1 + place
    }
    return switch (name, value) {
    case (":method", "POST"): 3
    case (":scheme", "http"): 6
    case (":scheme", "https"): 7
    default: nil
    }
  }

  /// The index of a header with this name.
  private func index(of name: String) -> Int? {
    switch name {
    case ":authority": 1
    case ":method": 2
    case ":path": 4
    case ":scheme": 6
    case "authorization": 23
    case "content-encoding": 26
    case "content-type": 31
    default: entries.firstIndex { $0.name == name }.map { Self.staticEntries + 1 + $0 }
    }
  }

  /// Adds an entry as the newest; one that is larger than the table only empties it.
  private mutating func insert(_ entry: Entry) {
    evict(until: limit - entry.size)
    guard entry.size <= limit else { return }
    entries.insert(entry, at: 0)
    size += entry.size
  }

  private mutating func evict(until limit: Int) {
    while size > limit, let oldest = entries.popLast() { size -= oldest.size }
  }
}

extension [UInt8] {
  /// Appends an integer with a prefix of so many bits (RFC 7541, 5.1).
  ///
  /// - Parameter kind: the bits before the prefix.
  fileprivate mutating func appendHPACK(_ value: Int, bits: Int, after kind: UInt8) {
    let most = 1 << bits - 1
    guard value >= most else { return append(kind | UInt8(value)) }
    append(kind | UInt8(most))
    var rest = value - most
    while rest >= 0x80 {
      append(UInt8(rest & 0x7F) | 0x80)
      rest >>= 7
    }
    append(UInt8(rest))
  }

  /// Appends a text with its length (RFC 7541, 5.2).
  fileprivate mutating func appendHPACK(_ text: String) {
    appendHPACK(text.utf8.count, bits: 7, after: 0)
    append(contentsOf: text.utf8)
  }
}
