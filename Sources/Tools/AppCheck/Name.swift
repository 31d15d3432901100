import Foundation

/// A path, a key or a text out of an app, compared by its bytes. (A `String` is compared in a normal form, for which a
/// name of many combining marks takes minutes.)
struct Name: Sendable, Hashable, Comparable, ExpressibleByStringLiteral {
  let bytes: [UInt8]

  init<Bytes: Sequence<UInt8>>(_ bytes: Bytes) { self.bytes = Array(bytes) }
  init(_ text: String) { bytes = Array(text.utf8) }
  init(stringLiteral text: String) { self.init(text) }

  /// The name as a person reads it.
  var text: String { String(decoding: bytes, as: UTF8.self) }

  static func < (left: Name, right: Name) -> Bool { left.bytes.lexicographicallyPrecedes(right.bytes) }
  static func + (left: Name, right: Name) -> Name { Name(left.bytes + right.bytes) }

  func hasPrefix(_ name: Name) -> Bool { bytes.starts(with: name.bytes) }
  func hasSuffix(_ name: Name) -> Bool { bytes.suffix(name.bytes.count) == name.bytes[...] }

  /// The folder of a path, with a slash at its end; empty if it has none.
  var folder: Name { Name(bytes[..<((bytes.lastIndex(of: "/") ?? -1) + 1)]) }
  /// The path without its folder.
  var last: Name { Name(bytes[((bytes.lastIndex(of: "/") ?? -1) + 1)...]) }

  /// A path without `.`, `..` and doubled slashes.
  static func path(_ text: some Sequence<UInt8>) -> Name {
    var parts: [ArraySlice<UInt8>] = []
    for part in Array(text).split(separator: "/") {
      switch Name(part) {
      case ".": continue
      case "..": _ = parts.popLast()
      default: parts.append(part)
      }
    }
    return Name(parts.joined(separator: ["/"]))
  }

  /// Whether another name stands somewhere in this one.
  func contains(_ name: Name) -> Bool { bytes.has(name) }

  /// Without blanks and line ends at both ends.
  var trimmed: Name {
    Name(bytes.drop(while: \.isBlank).reversed().drop(while: \.isBlank).reversed())
  }
}

/// A value that is built into an app, and where it stands.
struct Value: Sendable, Hashable {
  /// As it stands there.
  let name: Name
  /// In ASCII: other bytes are written as `\xC3`, since nothing that is compared has any.
  let text: String
  let file: Name
  /// Counted from 1; nil in a binary file.
  let line: Int?
  /// What it is called in a table of a package: `google_app_id`.
  var member: String?
  /// The target of an Xcode project that has it.
  var target: String?

  /// - Parameter file: empty if it concerns no single file.
  init(_ name: Name, file: Name, line: Int? = nil, member: Name? = nil) {
    (self.name, self.file, self.line, self.member) = (name, file, line, member?.text)
    let shown = name.bytes.prefix(Budget.value).map { byte in
      byte < 0x80 ? String(Unicode.Scalar(byte)) : "\\x" + String(byte, radix: 16, uppercase: true)
    }
    text = shown.joined() + (shown.count < name.bytes.count ? "..." : "")
  }

  /// Whether it names a variable that nothing sets.
  var isOpen: Bool { text.contains("$(") || text.contains("${") }

  /// Another text in its place.
  func with(_ text: Name) -> Value {
    var value = Value(text, file: file, line: line)
    (value.member, value.target) = (member, target)
    return value
  }
}

extension UInt8: @retroactive ExpressibleByUnicodeScalarLiteral {
  /// A mark of ASCII, as sources and lists are made of them.
  public init(unicodeScalarLiteral mark: Unicode.Scalar) { self.init(ascii: mark) }

  var isBlank: Bool { self == 0x20 || (0x09...0x0D).contains(self) }
  /// Whether it may stand in a text: ASCII with its blanks.
  var isPrintable: Bool { isBlank || (0x21...0x7E).contains(self) }
  var isDigit: Bool { ("0"..."9").contains(self) }
  /// Whether it may stand in a bundle id or package name.
  var isInIdentifier: Bool { isWord || self == "." || self == "-" }
  /// Whether it may stand in a name of a programming language.
  var isWord: Bool { isDigit || self == "_" || self >= 0x80 || ("a"..."z").contains(self | 0x20) }
}

extension ContiguousBytes {
  /// Where a text first stands. (`Data.range` takes three times as long for the many short texts of compiled code.)
  func position(of text: Name) -> Int? {
    withUnsafeBytes { bytes in
      guard let start = bytes.baseAddress, let byte = text.bytes.first else { return nil }
      let count = text.bytes.count
      var place = 0
      while place + count <= bytes.count,
        let next = memchr(start + place, CInt(byte), bytes.count - place - count + 1)
      {
        if memcmp(next, text.bytes, count) == 0 { return UnsafeRawPointer(next) - start }
        place = UnsafeRawPointer(next) - start + 1
      }
      return nil
    }
  }

  func has(_ text: Name) -> Bool { position(of: text) != nil }
}
