internal import CZlib
internal import Foundation

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

  enum Failure: Error {
    case notZip
    case unreadable
    /// Larger than ``maximumSize``.
    case tooLarge
  }

  /// The largest entry that is unpacked, in bytes. An app's code has some 30 MB.
  static let maximumSize = 256 << 20
  /// The most entries of an archive.
  private static let maximumCount = 200_000

  private let data: Data
  private let entries: [String: Entry]

  /// - Parameter data: the archive, best mapped from its file.
  init(_ data: Data) throws(Failure) {
    self.data = data
    let reader = LittleEndian(data)
    // The end record has 22 bytes and a comment of at most 65,535.
    let last = data.count - 22
    guard last >= 0,
      let end = stride(from: last, through: max(0, last - 65_535), by: -1).first(where: {
        reader.u32($0) == 0x0605_4B50
      }),
      let count = reader.u16(end + 10), count <= Self.maximumCount, var place = reader.u32(end + 16)
    else { throw .notZip }
    var entries: [String: Entry] = [:]
    for _ in 0..<count {
      guard reader.u32(place) == 0x0201_4B50, let method = reader.u16(place + 10),
        let packed = reader.u32(place + 20), let size = reader.u32(place + 24),
        let nameLength = reader.u16(place + 28), let extraLength = reader.u16(place + 30),
        let commentLength = reader.u16(place + 32), let offset = reader.u32(place + 42),
        let name = reader.bytes(place + 46, nameLength)
      else { throw .unreadable }
      entries[String(decoding: name, as: UTF8.self)] = Entry(
        method: method, packed: packed, size: size, offset: offset)
      place += 46 + nameLength + extraLength + commentLength
    }
    self.entries = entries
  }

  var names: [String] { Array(entries.keys) }

  /// Unpacks an entry; nil if there is none of that name.
  func contents(of name: String) throws(Failure) -> Data? {
    guard let entry = entries[name] else { return nil }
    guard entry.size <= Self.maximumSize else { throw .tooLarge }
    let reader = LittleEndian(data)
    guard reader.u32(entry.offset) == 0x0403_4B50, let nameLength = reader.u16(entry.offset + 26),
      let extraLength = reader.u16(entry.offset + 28),
      let packed = reader.bytes(entry.offset + 30 + nameLength + extraLength, entry.packed)
    else { throw .unreadable }
    switch entry.method {
    case 0: return packed
    case 8: return try Self.inflate(packed, to: entry.size)
    default: throw .unreadable
    }
  }

  /// - Parameter size: the size of what comes out; anything else is an error, so a small archive cannot fill the memory.
  private static func inflate(_ packed: Data, to size: Int) throws(Failure) -> Data {
    var stream = z_stream()
    guard czlib_inflate_init_raw(&stream) == Z_OK else { throw .unreadable }
    defer { inflateEnd(&stream) }
    var output = Data(count: size)
    let isWhole = output.withUnsafeMutableBytes { output in
      packed.withUnsafeBytes { input in
        // zlib does not write to its input.
        stream.next_in = UnsafeMutablePointer(mutating: input.bindMemory(to: UInt8.self).baseAddress)
        stream.avail_in = UInt32(input.count)
        stream.next_out = output.bindMemory(to: UInt8.self).baseAddress
        stream.avail_out = UInt32(output.count)
        return CZlib.inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.avail_out == 0
      }
    }
    guard isWhole else { throw .unreadable }
    return output
  }
}

/// Numbers in little-endian order at places of a file that nothing promises to be there.
struct LittleEndian {
  let data: Data

  init(_ data: Data) { self.data = data }

  func bytes(_ offset: Int, _ count: Int) -> Data? {
    guard offset >= 0, count >= 0, offset <= data.count, count <= data.count - offset else { return nil }
    let start = data.startIndex + offset
    return data[start..<start + count]
  }

  func u8(_ offset: Int) -> Int? { number(offset, 1) }
  func u16(_ offset: Int) -> Int? { number(offset, 2) }
  func u32(_ offset: Int) -> Int? { number(offset, 4) }

  private func number(_ offset: Int, _ count: Int) -> Int? {
    bytes(offset, count)?.reversed().reduce(0) { $0 << 8 | Int($1) }
  }
}
