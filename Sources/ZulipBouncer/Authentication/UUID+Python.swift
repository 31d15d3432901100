internal import Foundation
internal import HTTP
internal import Registrations

extension UUID {
  /// Reads a UUID in every spelling that Python's `uuid.UUID` takes: `urn:uuid:` in front, braces
  /// around, hyphens anywhere or nowhere, either case.
  init?(pythonText text: String) {
    if let uuid = UUID(hyphenated: text) {
      // As nearly everybody spells it.
      self = uuid
      return
    }
    guard text.utf8.count <= 128 else { return nil }
    var digits = text.replacing("urn:", with: "").replacing("uuid:", with: "")[...]
    while let first = digits.first, "{}".contains(first) { digits.removeFirst() }
    while let last = digits.last, "{}".contains(last) { digits.removeLast() }
    let nibbles = digits.utf8.filter { $0 != UInt8(ascii: "-") }.map { byte -> UInt8? in
      switch byte {
      case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
      case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
      case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
      default: nil
      }
    }
    guard nibbles.count == 32, !nibbles.contains(nil) else { return nil }
    var uuid = zeroes
    withUnsafeMutableBytes(of: &uuid) { bytes in
      for (index, nibble) in nibbles.compactMap(\.self).enumerated() {
        bytes[index / 2] = bytes[index / 2] << 4 | nibble
      }
    }
    self.init(uuid: uuid)
  }

  /// Whether the text is a UUID of version 4 as its canonical text: lower case, hyphens in place.
  static func isCanonicalVersion4(_ text: String) -> Bool {
    guard let uuid = UUID(uuidString: text), uuid.canonical == text else { return false }
    return uuid.isVersion4
  }
}

private let zeroes: uuid_t = (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
