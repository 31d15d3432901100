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
      let flags = reader.u32(start + 16), let texts = reader.u32(start + 20)
    else { return nil }
    self.reader = reader
    self.start = start
    self.count = count
    isUTF8 = flags & Self.utf8 != 0
    self.texts = start + texts
  }

  /// A text; nil if there is none, or one that is longer than any value.
  subscript(index: Int) -> Name? {
    guard index < count, let offset = reader.u32(start + 28 + 4 * index) else { return nil }
    var place = texts + offset
    if isUTF8 {
      // The length in UTF-16 units, then that in bytes; each takes two bytes if its first bit is set.
      guard length8(&place) != nil, let length = length8(&place) else { return nil }
      return length > Budget.value ? nil : reader.bytes(place, length).map { Name($0) }
    }
    guard var length = reader.u16(place) else { return nil }
    place += 2
    if length & 0x8000 != 0 {
      guard let low = reader.u16(place) else { return nil }
      length = (length & 0x7FFF) << 16 | low
      place += 2
    }
    guard length <= Budget.value else { return nil }
    let units = (0..<length).compactMap { reader.u16(place + 2 * $0).map(UInt16.init) }
    return units.count == length ? Name(String(decoding: units, as: UTF16.self)) : nil
  }

  /// The texts of a set, by their number.
  func indices(of names: Set<Name>, _ budget: Budget) throws -> [Int: Name] {
    var found: [Int: Name] = [:]
    for index in 0..<count {
      try budget.step()
      guard let name = self[index] else { continue }
      if names.contains(name) { found[index] = name }
    }
    return found
  }

  /// Those that begin so.
  func texts(beginning wanted: [Name], _ budget: Budget) throws -> Set<Name> {
    var found: Set<Name> = []
    for index in 0..<count {
      try budget.step()
      if let text = self[index], wanted.contains(where: text.hasPrefix) { found.insert(text) }
    }
    return found
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
  static func all(_ reader: LittleEndian, from start: Int, to end: Int, _ budget: Budget) throws -> [Chunk] {
    var (chunks, place): ([Chunk], Int) = ([], start)
    while let type = reader.u16(place), let header = reader.u16(place + 2), let size = reader.u32(place + 4),
      header >= 8, size >= header, place + size <= end
    {
      try budget.step(20)
      chunks.append(Chunk(type: type, start: place, content: place + header, end: place + size))
      place += size
    }
    return chunks
  }
}

/// A compiled `AndroidManifest.xml`.
struct BinaryXML {
  /// `package` of the `manifest` element.
  private(set) var package: Name?
  private var texts: Set<Name> = []

  init?(_ data: Data, _ budget: Budget) throws {
    let reader = LittleEndian(data)
    guard reader.u16(0) == 0x0003, let header = reader.u16(2) else { return nil }
    let chunks = try Chunk.all(reader, from: header, to: data.count, budget)
    guard let pool = chunks.lazy.compactMap({ StringPool(reader, at: $0.start) }).first else { return nil }
    texts = try pool.texts(beginning: Self.wanted, budget)
    // The first element is the root; each attribute has 20 bytes: namespace, name, text, typed value.
    guard let element = chunks.first(where: { $0.type == 0x0102 }),
      let start = reader.u16(element.content + 8), let count = reader.u16(element.content + 12)
    else { return }
    for index in 0..<count {
      try budget.step()
      let place = element.content + start + 20 * index
      guard let name = reader.u32(place + 4), pool[name] == "package", let text = reader.u32(place + 8) else {
        continue
      }
      package = pool[text]
      return
    }
  }

  /// That of a bundle, which is a message.
  init(_ message: ProtocolBuffer, _ data: Data) throws {
    package = try message.package
    texts = Set(Self.wanted.filter { text in data.withUnsafeBytes { $0.first(text.bytes) != nil } })
  }

  private static let wanted = [SourceReader.messaging, SourceReader.unifiedPush]

  /// Whether it names a service of notifications.
  func has(_ text: Name) -> Bool { texts.contains { $0.hasPrefix(text) } }
}

/// A text among an Android app's resources.
struct ResourceText {
  let name: Name
  /// Whether it is for all languages and devices.
  let isDefault: Bool
  /// nil if it is something else: the name of another one, or a text with styles.
  let text: Name?
}

/// An APK's `resources.arsc`.
enum ResourceTable {
  /// The texts of these names, in all configurations. nil if the table cannot be read.
  static func texts(_ names: Set<Name>, in data: Data, _ budget: Budget) throws -> [ResourceText]? {
    let reader = LittleEndian(data)
    guard reader.u16(0) == 0x0002, let header = reader.u16(2) else { return nil }
    let chunks = try Chunk.all(reader, from: header, to: data.count, budget)
    guard let values = chunks.lazy.compactMap({ StringPool(reader, at: $0.start) }).first else { return nil }
    var texts: [ResourceText] = []
    for package in chunks where package.type == 0x0200 {
      guard let offset = reader.u32(package.start + 276),
        let keys = try StringPool(reader, at: package.start + offset)?.indices(of: names, budget),
        !keys.isEmpty
      else { continue }
      for type in try Chunk.all(reader, from: package.content, to: package.end, budget)
      where type.type == 0x0201 {
        // A configuration: its size, and zeros if it is the one for everything.
        let size = reader.u32(type.start + 20) ?? 0
        let isDefault =
          reader.bytes(type.start + 24, min(max(size, 4), 64) - 4)?.allSatisfy { $0 == 0 } ?? true
        try read(reader, type, keys) { name, value in
          try budget.step()
          guard let name else { return }
          try budget.values(1)
          texts.append(ResourceText(name: name, isDefault: isDefault, text: value.flatMap { values[$0] }))
        }
      }
    }
    return texts
  }

  /// Hands over each entry of a type: its name if it is one of those that are looked for, and its text's number; nil if it
  /// is no text.
  private static func read(
    _ reader: LittleEndian, _ type: Chunk, _ keys: [Int: Name], _ body: (Name?, Int?) throws -> Void
  ) throws {
    guard let flags = reader.u8(type.start + 9), let count = reader.u32(type.start + 12),
      let start = reader.u32(type.start + 16), count <= type.end - type.start
    else { return }
    for index in 0..<count {
      let offset: Int?
      switch flags & 3 {
      case 0: offset = reader.u32(type.content + 4 * index).flatMap { $0 == 0xFFFF_FFFF ? nil : $0 }
      case 1: offset = reader.u16(type.content + 4 * index + 2).map { 4 * $0 }
      default: offset = reader.u16(type.content + 2 * index).flatMap { $0 == 0xFFFF ? nil : 4 * $0 }
      }
      // An entry of 8 bytes with its key, then a value: its size, a zero, its type (3: a text) and its number. A compact
      // entry has the key in its first two bytes, its type in the fourth, and then the number.
      guard let entry = offset.map({ type.start + start + $0 }), let flags = reader.u16(entry + 2) else {
        try body(nil, nil)
        continue
      }
      if flags & 0x0008 != 0 {
        let key = reader.u16(entry).flatMap { keys[$0] }
        try body(key, flags >> 8 == 3 ? reader.u32(entry + 4) : nil)
      } else {
        let key = reader.u32(entry + 4).flatMap { keys[$0] }
        let size = reader.u16(entry) ?? 8
        try body(
          key, flags & 0x0001 == 0 && reader.u8(entry + size + 3) == 3 ? reader.u32(entry + size + 4) : nil)
      }
    }
  }
}

/// A message in the encoding of Protocol Buffers, without its description. Its members are read one after the other.
struct ProtocolBuffer {
  private let data: Data
  private let budget: Budget

  init(_ data: Data, _ budget: Budget) { (self.data, self.budget) = (data, budget) }

  /// nil if it is longer than any value.
  private var text: Name? { data.count <= Budget.value ? Name(data) : nil }

  /// Hands over the members of a number that have a length, messages and texts, until `body` returns false. Ends at what
  /// does not fit.
  private func read(_ number: Int, _ body: (ProtocolBuffer) throws -> Bool) throws {
    var place = data.startIndex
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
      try budget.step()
      switch tag & 7 {
      case 0: if varint() == nil { return }
      case 1: place += 8
      case 2:
        guard let length = varint(), length >= 0, length <= data.endIndex - place else { return }
        let member = ProtocolBuffer(data[place..<place + length], budget)
        place += length
        if tag >> 3 == number, try !body(member) { return }
      case 5: place += 4
      default: return
      }
      guard place <= data.endIndex else { return }
    }
  }

  private func first(_ path: Int...) throws -> ProtocolBuffer? {
    var found: ProtocolBuffer? = self
    for number in path {
      guard let message = found else { return nil }
      found = nil
      try message.read(number) {
        found = $0
        return false
      }
    }
    return found
  }

  /// `package` of an AAB's manifest: XmlNode.element.attribute with name and value.
  var package: Name? {
    get throws {
      var package: Name?
      try first(1)?.read(4) { attribute in
        guard try attribute.first(2)?.text == "package" else { return true }
        package = try attribute.first(3)?.text
        return false
      }
      return package
    }
  }

  /// The texts of these names among an AAB's resources: ResourceTable.package.type.entry, its name, and of each
  /// config_value the configuration and value.item.str.value. An empty text is left out of its message.
  func resourceTexts(_ names: Set<Name>) throws -> [ResourceText] {
    var texts: [ResourceText] = []
    try read(2) { package in
      try package.read(3) { type in
        try type.read(3) { entry in
          guard let name = try entry.first(2)?.text, names.contains(name) else { return true }
          try entry.read(6) { value in
            let text = try value.first(2, 4, 2)
            try budget.values(1)
            texts.append(
              ResourceText(
                name: name, isDefault: try value.first(1)?.data.isEmpty ?? true,
                text: try text.map { try $0.first(1)?.text ?? "" }))
            return true
          }
          return true
        }
        return true
      }
      return true
    }
    return texts
  }
}
