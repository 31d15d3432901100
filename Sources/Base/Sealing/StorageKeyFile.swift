import CSodium
import Crypto
import Foundation

/// The content of `Keys/storage.key`: a key in base64. After the first rotation a second line, `hashing ...`, keeps the key
/// for hashes: the hashed texts are not stored, so they could not be hashed again.
///
/// The keys are held only in memory that is wiped when freed.
package struct StorageKeyFile: Sendable {
  package static let maximumBytes = 4096

  private let key: SymmetricKey
  /// Nil if it is derived from ``key``.
  private let hashing: SymmetricKey?

  /// Parses a file's content, which the caller wipes.
  package init?(utf8 content: UnsafeRawBufferPointer) {
    guard content.count <= Self.maximumBytes else { return nil }
    var key: SymmetricKey?
    var hashing: SymmetricKey?
    for line in content.split(whereSeparator: { $0 == 0x0A || $0 == 0x0D }) {
      let words = line.split(whereSeparator: { $0 == 0x20 || $0 == 0x09 })
      guard let last = words.last else { continue }
      guard let value = Self.key(UnsafeRawBufferPointer(rebasing: last)) else { return nil }
      switch words.count {
      case 1 where key == nil: key = value
      case 2 where words[0].elementsEqual("hashing".utf8) && hashing == nil: hashing = value
      default: return nil
      }
    }
    guard let key else { return nil }
    self.key = key
    self.hashing = hashing
  }

  package init?(_ text: String) {
    var text = text
    guard let file = text.withUTF8({ StorageKeyFile(utf8: UnsafeRawBufferPointer($0)) }) else { return nil }
    self = file
  }

  private init(key: SymmetricKey, hashing: SymmetricKey?) {
    self.key = key
    self.hashing = hashing
  }

  package static func generate() -> StorageKeyFile {
    StorageKeyFile(key: SymmetricKey(size: .bits256), hashing: nil)
  }

  /// The file's content; the caller wipes it.
  package var utf8: [UInt8] {
    // Reserved in advance, because growing would leave copies in memory.
    var text: [UInt8] = []
    text.reserveCapacity(256)
    Self.write(key, to: &text)
    if let hashing {
      text += "hashing ".utf8
      Self.write(hashing, to: &text)
    }
    return text
  }

  /// A file with a new key, which makes the same hashes.
  package func successor() -> StorageKeyFile {
    while true {
      let next = StorageKeyFile(key: SymmetricKey(size: .bits256), hashing: hashingKey)
      // Sealed values name their key by the first bytes of its id, so these must differ.
      if next.sealingKey.header != sealingKey.header { return next }
    }
  }

  var sealingKey: SealingKey { SealingKey(key) }

  var hashingKey: SymmetricKey { hashing ?? key.derived("hashing") }

  /// Parses 32 bytes in canonical base64.
  private static func key(_ text: UnsafeRawBufferPointer) -> SymmetricKey? {
    var bytes = [UInt8](repeating: 0, count: StorageKey.keyBytes)
    defer { bytes.wipe() }
    var count = 0
    let isRead = text.withMemoryRebound(to: CChar.self) { text in
      sodium_base642bin(
        &bytes, bytes.count, text.baseAddress, text.count, nil, &count, nil, sodium_base64_VARIANT_ORIGINAL)
    }
    return isRead == 0 && count == bytes.count ? SymmetricKey(data: bytes) : nil
  }

  private static func write(_ key: SymmetricKey, to text: inout [UInt8]) {
    // 32 bytes in base64, and C's terminating zero.
    var line = [CChar](repeating: 0, count: 45)
    defer { line.withUnsafeMutableBytes { sodium_memzero($0.baseAddress, $0.count) } }
    key.withUnsafeBytes { key in
      _ = sodium_bin2base64(
        &line, line.count, key.baseAddress, key.count, sodium_base64_VARIANT_ORIGINAL)
    }
    for character in line.dropLast() { text.append(UInt8(bitPattern: character)) }
    text.append(0x0A)
  }
}
