import Foundation

// Android's binary formats, as far as they are needed: Android's ResourceTypes.h for an APK, aapt2's Resources.proto for
// an AAB. Everything is read at places that nothing promises to be there; what does not fit is not read.

/// The pool of texts in a chunk of an APK's manifest or resource table.
private struct StringPool {
  private let data: Data
  private let start: Int
  private let count: Int
  private let isUTF8: Bool
  private let texts: Int

  /// - Parameter start: where the chunk begins.
  init?(_ data: Data, at start: Int) {
    guard data.u16(start) == 0x0001, let count = data.u32(start + 8),
      let flags = data.u32(start + 16), let texts = data.u32(start + 20)
    else { return nil }
    (self.data, self.start, self.count, self.texts) = (data, start, count, start + texts)
    isUTF8 = flags & 0x100 != 0
  }

  /// A text; nil if there is none, or one that is longer than any value.
  subscript(index: Int) -> Name? {
    guard index < count, let offset = data.u32(start + 28 + 4 * index) else { return nil }
    var place = texts + offset
    // In front of UTF-8, the length in UTF-16 units stands as well.
    if isUTF8 { _ = length(&place) }
    guard let length = length(&place), length <= Budget.value,
      let bytes = data.part(place, isUTF8 ? length : 2 * length)
    else { return nil }
    return isUTF8 ? Name(bytes) : String(data: bytes, encoding: .utf16LittleEndian).map { Name($0) }
  }

  /// A length of one unit, or of two if the first bit is set.
  private func length(_ place: inout Int) -> Int? {
    let (size, bit) = isUTF8 ? (1, 0x80) : (2, 0x8000)
    guard let first = data.number(place, size) else { return nil }
    place += size
    guard first & bit != 0 else { return first }
    defer { place += size }
    return data.number(place, size).map { (first - bit) << (8 * size) | $0 }
  }

  /// Those of these texts that it has, by their number.
  func numbers(of texts: Set<Name>, _ budget: Budget) throws -> [Int: Name] {
    var found: [Int: Name] = [:]
    for index in 0..<count {
      try budget.step()
      if let text = self[index], texts.contains(text) { found[index] = text }
    }
    return found
  }
}

/// A chunk's type, where it begins and ends, and where its content begins.
private struct Chunk {
  let type, start, content, end: Int

  /// The chunks in a range, until one does not fit.
  static func all(_ data: Data, from start: Int, to end: Int, _ budget: Budget) throws -> [Chunk] {
    var (chunks, place): ([Chunk], Int) = ([], start)
    while let type = data.u16(place), let header = data.u16(place + 2), let size = data.u32(place + 4),
      header >= 8, size >= header, place + size <= end
    {
      try budget.step(20)
      chunks.append(Chunk(type: type, start: place, content: place + header, end: place + size))
      place += size
    }
    return chunks
  }

  /// The chunks of a whole file, and the texts that they have by number; nil if it is not of this type.
  static func all(of data: Data, type: Int, _ budget: Budget) throws -> (
    chunks: [Chunk], texts: StringPool
  )? {
    guard data.u16(0) == type, let header = data.u16(2) else { return nil }
    let chunks = try all(data, from: header, to: data.count, budget)
    return chunks.lazy.compactMap { StringPool(data, at: $0.start) }.first.map { (chunks, $0) }
  }
}

/// A text among an Android app's resources.
struct ResourceText {
  let name: Name
  /// Whether it is for all languages and devices.
  let isDefault: Bool
  /// nil if it is something else: the name of another one, or a text with styles.
  let text: Name?
}

/// What an APK has in chunks.
enum APK {
  /// `package` of a compiled `AndroidManifest.xml`; nil if that cannot be read.
  static func package(of data: Data, _ budget: Budget) throws -> Name? {
    // The first element is the root; each attribute has 20 bytes: namespace, name, text, typed value.
    guard let (chunks, texts) = try Chunk.all(of: data, type: 0x0003, budget),
      let element = chunks.first(where: { $0.type == 0x0102 }),
      let start = data.u16(element.content + 8), let count = data.u16(element.content + 12)
    else { return nil }
    for index in 0..<count {
      try budget.step()
      let place = element.content + start + 20 * index
      guard let name = data.u32(place + 4), texts[name] == "package" else { continue }
      return data.u32(place + 8).flatMap { texts[$0] }
    }
    return nil
  }

  /// The texts of these names in a `resources.arsc`, in all configurations; nil if it cannot be read.
  static func texts(_ names: Set<Name>, in data: Data, _ budget: Budget) throws -> [ResourceText]? {
    guard let (chunks, values) = try Chunk.all(of: data, type: 0x0002, budget) else { return nil }
    var texts: [ResourceText] = []
    for package in chunks where package.type == 0x0200 {
      guard let offset = data.u32(package.start + 276),
        let keys = try StringPool(data, at: package.start + offset)?.numbers(of: names, budget),
        !keys.isEmpty
      else { continue }
      for type in try Chunk.all(data, from: package.content, to: package.end, budget)
      where type.type == 0x0201 {
        // A configuration: its size, and zeros if it is the one for everything.
        let size = data.u32(type.start + 20) ?? 0
        let isDefault =
          data.part(type.start + 24, min(max(size, 4), 64) - 4)?.allSatisfy { $0 == 0 } ?? true
        texts += try entries(of: type, data, keys, budget).map { name, text in
          ResourceText(name: name, isDefault: isDefault, text: text.flatMap { values[$0] })
        }
      }
    }
    return texts
  }

  /// The entries of a type that are looked for: their names, and the numbers of their texts; nil if it is no text.
  private static func entries(
    of type: Chunk, _ data: Data, _ keys: [Int: Name], _ budget: Budget
  ) throws -> [(name: Name, text: Int?)] {
    guard let flags = data.u8(type.start + 9), let count = data.u32(type.start + 12),
      let start = data.u32(type.start + 16).map({ type.start + $0 }), count <= type.end - type.start
    else { return [] }
    var found: [(name: Name, text: Int?)] = []
    for index in 0..<count {
      try budget.step()
      let offset: Int? =
        switch flags & 3 {
        case 0: data.u32(type.content + 4 * index).flatMap { $0 == 0xFFFF_FFFF ? nil : $0 }
        case 1: data.u16(type.content + 4 * index + 2).map { 4 * $0 }
        default: data.u16(type.content + 2 * index).flatMap { $0 == 0xFFFF ? nil : 4 * $0 }
        }
      // An entry of 8 bytes with its key, then a value: its size, a zero, its type (3: a text) and its number. A compact
      // entry has the key in its first two bytes, its type in the fourth, and then the number.
      guard let entry = offset.map({ start + $0 }), let flags = data.u16(entry + 2) else { continue }
      let isCompact = flags & 0x0008 != 0
      let key = isCompact ? data.u16(entry) : data.u32(entry + 4)
      guard let name = key.flatMap({ keys[$0] }) else { continue }
      try budget.values(1)
      let value = isCompact ? entry : entry + (data.u16(entry) ?? 8)
      let isText = isCompact ? flags >> 8 == 3 : flags & 0x0001 == 0 && data.u8(value + 3) == 3
      found.append((name, isText ? data.u32(value + 4) : nil))
    }
    return found
  }
}

/// A message in the encoding of Protocol Buffers, without its description. Its members are read one after the other.
struct ProtocolBuffer {
  private let data: Data
  private let budget: Budget

  init(_ data: Data, _ budget: Budget) { (self.data, self.budget) = (data, budget) }

  /// nil if it is longer than any value.
  private var text: Name? { data.count <= Budget.value ? Name(data) : nil }

  /// The members that have a length, messages and texts, by their numbers from message to message. Ends at what does not
  /// fit.
  private func members(_ path: Int...) throws -> [ProtocolBuffer] {
    try path.reduce([self]) { messages, number in try messages.flatMap { try $0.members(of: number) } }
  }

  private func members(of number: Int) throws -> [ProtocolBuffer] {
    var (found, place): ([ProtocolBuffer], Int) = ([], data.startIndex)
    func varint() -> Int? {
      var value = 0
      for shift in stride(from: 0, to: 63, by: 7) where place < data.endIndex {
        let byte = data[place]
        place += 1
        value |= Int(byte & 0x7F) << shift
        if byte & 0x80 == 0 { return value }
      }
      return nil
    }
    while let tag = varint() {
      try budget.step()
      switch tag & 7 {
      case 0: _ = varint()
      case 1: place += 8
      case 2:
        guard let length = varint(), length >= 0, length <= data.endIndex - place else { return found }
        if tag >> 3 == number {
          try budget.step(4)
          found.append(ProtocolBuffer(data[place..<place + length], budget))
        }
        place += length
      case 5: place += 4
      default: return found
      }
    }
    return found
  }

  /// `package` of an AAB's manifest: XmlNode.element.attribute with name and value.
  var package: Name? {
    get throws {
      try members(1, 4).first { try $0.members(2).first?.text == "package" }?.members(3).first?.text
    }
  }

  /// The texts of these names among an AAB's resources: ResourceTable.package.type.entry, its name, and of each
  /// config_value the configuration and value.item.str.value. An empty text is left out of its message.
  func resourceTexts(_ names: Set<Name>) throws -> [ResourceText] {
    try members(2, 3, 3).flatMap { entry -> [ResourceText] in
      guard let name = try entry.members(2).first?.text, names.contains(name) else { return [] }
      return try entry.members(6).map { value in
        try budget.values(1)
        return ResourceText(
          name: name, isDefault: try value.members(1).first?.data.isEmpty ?? true,
          text: try value.members(2, 4, 2).first.map { try $0.members(1).first?.text ?? "" })
      }
    }
  }
}
