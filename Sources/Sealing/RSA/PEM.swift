/// The textual encoding of keys (RFC 7468), read with any line breaks or none: forms, phones and PHP each
/// have their own, and the library wants its own.
enum PEM {
  /// The bytes of a text that holds exactly one block with this label; nil for anything else.
  static func decode(_ text: String, label: String, limit: Int) -> [UInt8]? {
    guard text.utf8.count <= limit else { return nil }
    var block = text.utf8[...].trimmed
    guard block.starts(with: "-----BEGIN \(label)-----".utf8) else { return nil }
    block = block.dropFirst("-----BEGIN \(label)-----".utf8.count)
    let end = Array("-----END \(label)-----".utf8)
    guard block.suffix(end.count).elementsEqual(end) else { return nil }
    let base64 = block.dropLast(end.count).filter { !$0.isSpace }
    return Base64.decodeStrictly(String(decoding: base64, as: UTF8.self))
  }
}

extension Substring.UTF8View {
  fileprivate var trimmed: Substring.UTF8View {
    drop(while: \.isSpace).lastIndex { !$0.isSpace }.map { drop(while: \.isSpace)[...$0] } ?? self
  }
}

extension UInt8 {
  fileprivate var isSpace: Bool { self == 0x20 || (0x09...0x0D).contains(self) }
}
