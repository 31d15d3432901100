import Basics

/// A recursive descent parser over bytes that are not copied.
struct JSONParser {
  let bytes: UnsafeBufferPointer<UInt8>
  let cutBelow: Int?
  var index = 0
  var depth = 0
  var remainingValues: Int

  init(bytes: UnsafeBufferPointer<UInt8>, cutBelow: Int?) {
    self.bytes = bytes
    self.cutBelow = cutBelow
    remainingValues = JSON.maximumValues(in: bytes.count)
  }

  /// Reads an array and passes its elements to `use` one by one; false for any other document. An error of
  /// `use` is thrown after the rest has been read, so that a syntax error takes precedence.
  mutating func elements(_ use: (JSON) throws -> Void) throws -> Bool {
    skipSpace()
    var refusal: (any Error)?
    let isArray = current == UInt8(ascii: "[")
    if isArray {
      try list { parser throws(JSON.ParseError) in
        parser.remainingValues = JSON.maximumValues(in: parser.bytes.count)
        let value = try parser.value()
        guard refusal == nil else { return }
        do { try use(value) } catch { refusal = error }
      }
    } else {
      _ = try value()
    }
    skipSpace()
    guard index == bytes.count else { throw failure }
    if let refusal { throw refusal }
    return isArray
  }

  mutating func document() throws(JSON.ParseError) -> JSON {
    skipSpace()
    let value = try value()
    skipSpace()
    guard index == bytes.count else { throw failure }
    return value
  }

  private var failure: JSON.ParseError { .syntax(at: index) }

  private var current: UInt8? { index < bytes.count ? bytes[index] : nil }

  private mutating func skipSpace() {
    while let byte = current, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { index += 1 }
  }

  private mutating func expect(_ text: StaticString, _ value: JSON) throws(JSON.ParseError) -> JSON {
    let count = text.utf8CodeUnitCount
    guard bytes.count - index >= count else { throw failure }
    for offset in 0..<count where bytes[index + offset] != text.utf8Start[offset] { throw failure }
    index += count
    return value
  }

  private mutating func value() throws(JSON.ParseError) -> JSON {
    remainingValues -= 1
    guard remainingValues >= 0 else { throw .tooManyValues }
    switch current {
    case UInt8(ascii: "{"): return try isCut ? skipValue() : object()
    case UInt8(ascii: "["): return try isCut ? skipValue() : array()
    case UInt8(ascii: "\""): return .string(try string())
    case UInt8(ascii: "t"): return try expect("true", .bool(true))
    case UInt8(ascii: "f"): return try expect("false", .bool(false))
    case UInt8(ascii: "n"): return try expect("null", .null)
    default: return try number()
    }
  }

  private var isCut: Bool { depth == cutBelow }

  /// Skips an array or object of any depth, without recursion.
  private mutating func skipValue() throws(JSON.ParseError) -> JSON {
    var closing: [UInt8] = []
    repeat {
      switch current {
      case nil: throw failure
      case UInt8(ascii: "\""):
        _ = try string()
        continue
      case UInt8(ascii: "{"): closing.append(UInt8(ascii: "}"))
      case UInt8(ascii: "["): closing.append(UInt8(ascii: "]"))
      case UInt8(ascii: "}"), UInt8(ascii: "]"):
        guard closing.popLast() == current else { throw failure }
      default: break
      }
      index += 1
    } while !closing.isEmpty
    return .null
  }

  private mutating func enter() throws(JSON.ParseError) {
    depth += 1
    guard depth <= cutBelow ?? JSON.maximumDepth else { throw .depth }
    index += 1
    skipSpace()
  }

  private mutating func object() throws(JSON.ParseError) -> JSON {
    try enter()
    var members: [JSON.Object.Member] = []
    if current != UInt8(ascii: "}") {
      // Enough for most objects; growing to it would copy several times.
      members.reserveCapacity(4)
      while true {
        guard current == UInt8(ascii: "\"") else { throw failure }
        let name = try string()
        skipSpace()
        guard current == UInt8(ascii: ":") else { throw failure }
        index += 1
        skipSpace()
        members.append(JSON.Object.Member(Name(name), try value()))
        skipSpace()
        guard current == UInt8(ascii: ",") else { break }
        index += 1
        skipSpace()
      }
    }
    guard current == UInt8(ascii: "}") else { throw failure }
    index += 1
    depth -= 1
    return .object(JSON.Object(members))
  }

  private mutating func array() throws(JSON.ParseError) -> JSON {
    var elements: [JSON] = []
    try list { parser throws(JSON.ParseError) in
      elements.append(try parser.value())
    }
    return .array(elements)
  }

  /// Reads the brackets and commas of an array, and its elements with `element`.
  private mutating func list(
    _ element: (inout JSONParser) throws(JSON.ParseError) -> Void
  ) throws(JSON.ParseError) {
    try enter()
    if current != UInt8(ascii: "]") {
      while true {
        try element(&self)
        skipSpace()
        guard current == UInt8(ascii: ",") else { break }
        index += 1
        skipSpace()
      }
    }
    guard current == UInt8(ascii: "]") else { throw failure }
    index += 1
    depth -= 1
  }

  private mutating func digits() throws(JSON.ParseError) {
    guard current?.isASCIIDigit == true else { throw failure }
    while current?.isASCIIDigit == true { index += 1 }
  }

  private mutating func number() throws(JSON.ParseError) -> JSON {
    let start = index
    if current == UInt8(ascii: "-") { index += 1 }
    if current == UInt8(ascii: "0") { index += 1 } else { try digits() }
    var isInteger = true
    if current == UInt8(ascii: ".") {
      isInteger = false
      index += 1
      try digits()
    }
    if current == UInt8(ascii: "e") || current == UInt8(ascii: "E") {
      isInteger = false
      index += 1
      if current == UInt8(ascii: "+") || current == UInt8(ascii: "-") { index += 1 }
      try digits()
    }
    let text = String(decoding: bytes[start..<index], as: UTF8.self)
    if isInteger, let value = Int64(text) { return .integer(value) }
    return .number(text)
  }

  private mutating func string() throws(JSON.ParseError) -> String {
    let start = index + 1
    // A string without escapes, the usual case, is copied in one piece.
    let end = bytes.firstEscapedInJSON(from: start)
    index = end
    switch current {
    case UInt8(ascii: "\""):
      let text = try text(UnsafeBufferPointer(rebasing: bytes[start..<end]))
      index += 1
      return text
    case UInt8(ascii: "\\"): return try escapedString(from: start)
    default: throw failure
    }
  }

  private func text(_ bytes: UnsafeBufferPointer<UInt8>) throws(JSON.ParseError) -> String {
    guard let text = String(utf8: bytes) else { throw .encoding }
    return text
  }

  private mutating func escapedString(from start: Int) throws(JSON.ParseError) -> String {
    var unescaped: [UInt8] = []
    var start = start
    while let byte = current {
      switch byte {
      case UInt8(ascii: "\""):
        unescaped += bytes[start..<index]
        index += 1
        guard let text = unescaped.withUnsafeBufferPointer(String.init(utf8:)) else { throw .encoding }
        return text
      case UInt8(ascii: "\\"):
        unescaped += bytes[start..<index]
        index += 1
        try escape(into: &unescaped)
        start = index
      case 0..<0x20: throw failure
      default: index += 1
      }
    }
    throw failure
  }

  private mutating func escape(into unescaped: inout [UInt8]) throws(JSON.ParseError) {
    guard let byte = current else { throw failure }
    index += 1
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): unescaped.append(byte)
    case UInt8(ascii: "b"): unescaped.append(0x08)
    case UInt8(ascii: "f"): unescaped.append(0x0C)
    case UInt8(ascii: "n"): unescaped.append(0x0A)
    case UInt8(ascii: "r"): unescaped.append(0x0D)
    case UInt8(ascii: "t"): unescaped.append(0x09)
    case UInt8(ascii: "u"): unescaped.append(contentsOf: Array(String(try unicodeScalar()).utf8))
    default:
      index -= 1
      throw failure
    }
  }

  /// Reads `XXXX`, or `XXXX\uXXXX` for a surrogate pair; half a pair is an error.
  private mutating func unicodeScalar() throws(JSON.ParseError) -> Unicode.Scalar {
    let half = JSON.ParseError.halfSurrogate(at: index - 2)
    let high = try fourHexDigits()
    var code = high
    if (0xD800..<0xDC00).contains(high) {
      guard bytes[index...].starts(with: "\\u".utf8) else { throw half }
      index += 2
      let low = try fourHexDigits()
      guard (0xDC00..<0xE000).contains(low) else { throw half }
      code = 0x10000 + (high - 0xD800) << 10 + (low - 0xDC00)
    }
    guard let scalar = Unicode.Scalar(code) else { throw half }
    return scalar
  }

  private mutating func fourHexDigits() throws(JSON.ParseError) -> UInt32 {
    guard bytes.count - index >= 4 else { throw failure }
    var code: UInt32 = 0
    for _ in 0..<4 {
      guard let digit = bytes[index].hexadecimalValue else { throw failure }
      code = code << 4 | UInt32(digit)
      index += 1
    }
    return code
  }
}
