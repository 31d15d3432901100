internal import Foundation

// Android's binary formats, as far as they are needed: Android's ResourceTypes.h for an APK, aapt2's Resources.proto for
// an AAB. Everything is read at places that nothing promises to be there; what does not fit is not read.

/// The pool of texts in a chunk of an APK's manifest or resource table.
private struct StringPool {
  static let type = 0x0001
  private static let utf8 = 0x100

  private let reader: LittleEndian
  private let start: Int
  private let count: Int
  private let isUTF8: Bool
  private let texts: Int

  /// - Parameter start: where the chunk begins.
  init?(_ reader: LittleEndian, at start: Int) {
    guard reader.u16(start) == Self.type, let count = reader.u32(start + 8),
      let flags = reader.u32(start + 16),
      let texts = reader.u32(start + 20)
    else { return nil }
    (self.reader, self.start, self.count) = (reader, start, count)
    (isUTF8, self.texts) = (flags & Self.utf8 != 0, start + texts)
  }

  subscript(index: Int) -> String? {
    guard index < count, let offset = reader.u32(start + 28 + 4 * index) else { return nil }
    var place = texts + offset
    if isUTF8 {
      // The length in UTF-16 units, then that in bytes; each takes two bytes if its first bit is set.
      guard length8(&place) != nil, let length = length8(&place) else { return nil }
      return reader.bytes(place, length).map { String(decoding: $0, as: UTF8.self) }
    }
    guard var length = reader.u16(place) else { return nil }
    place += 2
    if length & 0x8000 != 0 {
      guard let low = reader.u16(place) else { return nil }
      length = (length & 0x7FFF) << 16 | low
      place += 2
    }
    return reader.bytes(place, 2 * length).flatMap { String(data: $0, encoding: .utf16LittleEndian) }
  }

  private func length8(_ place: inout Int) -> Int? {
    guard let first = reader.u8(place) else { return nil }
    guard first & 0x80 != 0 else {
      place += 1
      return first
    }
    guard let second = reader.u8(place + 1) else { return nil }
    place += 2
    return (first & 0x7F) << 8 | second
  }
}

/// A chunk's type, where it begins and ends, and where its content begins.
private struct Chunk {
  let type: Int
  let start: Int
  let content: Int
  let end: Int

  /// The chunks in a range, until one does not fit.
  static func all(_ reader: LittleEndian, from start: Int, to end: Int) -> [Chunk] {
    var (chunks, place): ([Chunk], Int) = ([], start)
    while let type = reader.u16(place), let header = reader.u16(place + 2), let size = reader.u32(place + 4),
      header >= 8, size >= header, place + size <= end
    {
      chunks.append(Chunk(type: type, start: place, content: place + header, end: place + size))
      place += size
    }
    return chunks
  }
}

/// An APK's `AndroidManifest.xml`.
struct BinaryXML {
  /// `package` of the `manifest` element.
  let package: String?

  init?(_ data: Data) {
    let reader = LittleEndian(data)
    guard reader.u16(0) == 0x0003, let header = reader.u16(2) else { return nil }
    let chunks = Chunk.all(reader, from: header, to: data.count)
    guard let pool = chunks.lazy.compactMap({ StringPool(reader, at: $0.start) }).first else { return nil }
    // The first element is the root; each attribute has 20 bytes: namespace, name, text, typed value.
    package = chunks.first { $0.type == 0x0102 }.flatMap { element in
      guard let start = reader.u16(element.content + 8), let count = reader.u16(element.content + 12) else {
        return nil
      }
      return (0..<count).lazy.compactMap { index -> String? in
        let place = element.content + start + 20 * index
        guard let name = reader.u32(place + 4), pool[name] == "package", let text = reader.u32(place + 8)
        else {
          return nil
        }
        return pool[text]
      }.first
    }
  }
}

/// An APK's `resources.arsc`.
enum ResourceTable {
  /// The texts among the resources, by name, in the first configuration that has them. nil if the table cannot be read.
  static func texts(_ data: Data) -> [String: String]? {
    let reader = LittleEndian(data)
    guard reader.u16(0) == 0x0002, let header = reader.u16(2) else { return nil }
    let chunks = Chunk.all(reader, from: header, to: data.count)
    guard let values = chunks.lazy.compactMap({ StringPool(reader, at: $0.start) }).first else { return nil }
    var texts: [String: String] = [:]
    for package in chunks where package.type == 0x0200 {
      guard let offset = reader.u32(package.start + 276),
        let keys = StringPool(reader, at: package.start + offset)
      else {
        continue
      }
      for type in Chunk.all(reader, from: package.content, to: package.end) where type.type == 0x0201 {
        for entry in entries(reader, type) {
          // A simple entry of 8 bytes, then a value: its size, a zero, its type (3: a text) and its number.
          guard let size = reader.u16(entry), let flags = reader.u16(entry + 2), flags & 0x0009 == 0,
            let key = reader.u32(entry + 4), reader.u8(entry + size + 3) == 3,
            let value = reader.u32(entry + size + 4), let name = keys[key], texts[name] == nil
          else { continue }
          texts[name] = values[value]
        }
      }
    }
    return texts
  }

  /// Where the entries of a type begin.
  private static func entries(_ reader: LittleEndian, _ type: Chunk) -> [Int] {
    guard let flags = reader.u8(type.start + 9), let count = reader.u32(type.start + 12),
      let start = reader.u32(type.start + 16), count <= type.end - type.start
    else { return [] }
    return (0..<count).compactMap { index in
      let offset: Int?
      switch flags & 3 {
      case 0: offset = reader.u32(type.content + 4 * index).flatMap { $0 == 0xFFFF_FFFF ? nil : $0 }
      case 1: offset = reader.u16(type.content + 4 * index + 2).map { 4 * $0 }
      default: offset = reader.u16(type.content + 2 * index).flatMap { $0 == 0xFFFF ? nil : 4 * $0 }
      }
      return offset.map { type.start + start + $0 }
    }
  }
}

/// A message in the encoding of Protocol Buffers, without its description.
struct ProtocolBuffer {
  private let data: Data

  init(_ data: Data) { self.data = data }

  private var text: String { String(decoding: data, as: UTF8.self) }

  /// The members of a number that have a length: messages and texts. Ends at what does not fit.
  private func members(_ number: Int) -> [ProtocolBuffer] {
    var (found, place): ([ProtocolBuffer], Data.Index) = ([], data.startIndex)
    func varint() -> Int? {
      var value = 0
      for shift in stride(from: 0, to: 63, by: 7) {
        guard place < data.endIndex else { return nil }
        let byte = data[place]
        place += 1
        value |= Int(byte & 0x7F) << shift
        if byte & 0x80 == 0 { return value }
      }
      return nil
    }
    while let tag = varint() {
      switch tag & 7 {
      case 0: if varint() == nil { return found }
      case 1: place += 8
      case 2:
        guard let length = varint(), length <= data.endIndex - place else { return found }
        if tag >> 3 == number { found.append(ProtocolBuffer(data[place..<place + length])) }
        place += length
      case 5: place += 4
      default: return found
      }
      guard place <= data.endIndex else { return found }
    }
    return found
  }

  private func first(_ path: Int...) -> ProtocolBuffer? {
    path.reduce(self) { $0?.members($1).first }
  }

  /// `package` of an AAB's manifest: XmlNode.element.attribute with name and value.
  var package: String? {
    first(1)?.members(4).first { $0.first(2)?.text == "package" }?.first(3)?.text
  }

  /// The texts of an AAB's resources by name, in the first configuration: ResourceTable.package.type.entry, its name, and
  /// config_value.value.item.str.value.
  var resourceTexts: [String: String] {
    let entries = members(2).flatMap { $0.members(3) }.flatMap { $0.members(3) }
    let texts = entries.compactMap { entry in
      entry.first(2).flatMap { name in entry.first(6, 2, 4, 2, 1).map { (name.text, $0.text) } }
    }
    return Dictionary(texts, uniquingKeysWith: { first, _ in first })
  }
}
