import CZlib
import Foundation

/// The files of a zip archive (PKWARE's APPNOTE.TXT), of which entries are read one at a time. Understands what build
/// tools for apps write: stored and deflated entries, no encryption, no Zip64.
struct ZipArchive: Sendable {
  /// An entry of the central directory.
  private struct Entry {
    let method: Int
    let packed: Int
    let size: Int
    /// Where its local header begins.
    let offset: Int
  }

  /// Thrown for what is no archive, or an entry that does not fit.
  struct Failure: Error {}

  /// How much is unpacked at a time, in bytes.
  private static let piece = 1 << 18

  let data: Data
  /// Where the central directory begins.
  let directory: Int
  private let entries: [Name: Entry]
  private let budget: Budget

  /// - Parameter data: the archive, best mapped from its file.
  init(_ data: Data, _ budget: Budget) throws {
    (self.data, self.budget) = (data, budget)
    // The end record has 22 bytes and a comment of at most 65,535.
    let end = data.suffix(22 + 65_535).dropLast(18).range(of: Data([0x50, 0x4B, 5, 6]), options: .backwards)
    guard let end = end.map({ $0.lowerBound - data.startIndex }),
      // Two bytes, so at most 65,535.
      let count = data.u16(end + 10), var place = data.u32(end + 16)
    else { throw Failure() }
    directory = place
    var entries: [Name: Entry] = [:]
    for _ in 0..<count {
      guard data.u32(place) == 0x0201_4B50, let method = data.u16(place + 10),
        let packed = data.u32(place + 20), let size = data.u32(place + 24),
        let nameLength = data.u16(place + 28), let extraLength = data.u16(place + 30),
        let commentLength = data.u16(place + 32), let offset = data.u32(place + 42),
        let name = data.part(place + 46, nameLength)
      else { throw Failure() }
      try budget.read(nameLength)
      entries[Name(name)] = Entry(method: method, packed: packed, size: size, offset: offset)
      place += 46 + nameLength + extraLength + commentLength
    }
    self.entries = entries
  }

  var names: [Name] { Array(entries.keys) }

  /// Unpacks an entry; nil if there is none of that name.
  func contents(of name: Name) throws -> Data? {
    guard let entry = entries[name] else { return nil }
    guard entry.size <= Budget.part else {
      throw Budget.Exceeded(what: "\(name.text) of more than \(Budget.part >> 20) MB")
    }
    try budget.read(entry.size)
    var contents = Data(capacity: entry.size)
    try read(entry) { piece in
      // What is larger than it promises cannot fill the memory.
      guard contents.count + piece.count <= entry.size else { throw Failure() }
      contents.append(contentsOf: piece)
    }
    guard contents.count == entry.size else { throw Failure() }
    return contents
  }

  /// Hands over the texts of an entry, however large: what is printable, from eight bytes on. false if there is no entry
  /// of that name.
  func texts(of name: Name, _ body: ([UInt8]) throws -> Void) throws -> Bool {
    guard let entry = entries[name] else { return false }
    var text: [UInt8] = []
    func end() throws {
      if text.count >= 8 { try body(text) }
      text.removeAll(keepingCapacity: true)
    }
    try read(entry) { piece in
      try budget.read(piece.count)
      var start = 0
      for place in 0..<piece.count where !piece[place].isPrintable {
        if place > start { text += piece[start..<place] }
        if !text.isEmpty { try end() }
        start = place + 1
      }
      text += piece[start...]
      if text.count > Budget.text { try end() }
    }
    try end()
    return true
  }

  /// Hands over the contents of an entry in pieces.
  private func read(_ entry: Entry, _ body: (UnsafeRawBufferPointer) throws -> Void) throws {
    guard data.u32(entry.offset) == 0x0403_4B50, let nameLength = data.u16(entry.offset + 26),
      let extraLength = data.u16(entry.offset + 28),
      let packed = data.part(entry.offset + 30 + nameLength + extraLength, entry.packed)
    else { throw Failure() }
    switch entry.method {
    case 0:
      try packed.withUnsafeBytes { bytes in
        for start in stride(from: 0, to: bytes.count, by: Self.piece) {
          try body(UnsafeRawBufferPointer(rebasing: bytes[start..<min(start + Self.piece, bytes.count)]))
        }
      }
    case 8: try packed.withUnsafeBytes { try Self.inflate($0, body) }
    default: throw Failure()
    }
  }

  private static func inflate(
    _ packed: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) throws -> Void
  ) throws {
    var stream = z_stream()
    guard czlib_inflate_init_raw(&stream) == Z_OK else { throw Failure() }
    defer { inflateEnd(&stream) }
    let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.piece, alignment: 16)
    defer { piece.deallocate() }
    // zlib does not write to its input.
    stream.next_in = UnsafeMutablePointer(mutating: packed.bindMemory(to: UInt8.self).baseAddress)
    stream.avail_in = UInt32(packed.count)
    while true {
      stream.next_out = piece.bindMemory(to: UInt8.self).baseAddress
      stream.avail_out = UInt32(piece.count)
      let status = CZlib.inflate(&stream, Z_NO_FLUSH)
      let count = piece.count - Int(stream.avail_out)
      guard status == Z_STREAM_END || (status == Z_OK && count > 0) else { throw Failure() }
      try body(UnsafeRawBufferPointer(rebasing: piece[..<count]))
      if status == Z_STREAM_END { return }
    }
  }
}

/// Parts and numbers, in little-endian order, at places of a file that nothing promises to be there.
extension Data {
  func part(_ offset: Int, _ count: Int) -> Data? {
    guard offset >= 0, count >= 0, offset <= self.count, count <= self.count - offset else { return nil }
    return self[startIndex + offset..<startIndex + offset + count]
  }

  func u8(_ offset: Int) -> Int? { number(offset, 1) }
  func u16(_ offset: Int) -> Int? { number(offset, 2) }
  func u32(_ offset: Int) -> Int? { number(offset, 4) }

  func number(_ offset: Int, _ size: Int) -> Int? {
    part(offset, size)?.reversed().reduce(0) { $0 << 8 | Int($1) }
  }
}
