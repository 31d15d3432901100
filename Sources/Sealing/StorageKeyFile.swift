internal import CSodium
internal import Crypto
internal import Foundation

/// What `Keys/storage.key` says: a key in base64. While it is being changed there is a second one, on a line of its
/// own: both open, and the database says which one seals. From the first change on a line `hashing ...` keeps the key
/// of the hashes, which stays: what was hashed is known nowhere, so that it could not be hashed anew.
///
/// Its keys are only in memory that is wiped when it is given back.
package struct StorageKeyFile: Sendable {
  /// A larger file is not a key file.
  package static let maximumBytes = 4096

  private var keys: [SymmetricKey] = []
  /// nil if it follows from the only key.
  private var hashing: SymmetricKey?

  /// Reads a file's content, which the caller wipes.
  package init?(utf8 content: UnsafeRawBufferPointer) {
    guard content.count <= Self.maximumBytes else { return nil }
    for line in content.split(whereSeparator: { $0 == 0x0A || $0 == 0x0D }) {
      let words = line.split(whereSeparator: { $0 == 0x20 || $0 == 0x09 })
      guard let last = words.last else { continue }
      guard let key = Self.key(UnsafeRawBufferPointer(rebasing: last)) else { return nil }
      switch words.count {
      case 1: keys.append(key)
      case 2 where words[0].elementsEqual("hashing".utf8) && hashing == nil: hashing = key
      default: return nil
      }
    }
    guard (1...2).contains(keys.count), keys.count == 1 || hashing != nil else { return nil }
  }

  /// Reads a file's text.
  package init?(_ text: String) {
    var text = text
    guard let file = text.withUTF8({ StorageKeyFile(utf8: UnsafeRawBufferPointer($0)) }) else { return nil }
    self = file
  }

  private init(key: SymmetricKey) { keys = [key] }

  /// A file with a new random key.
  package static func generate() -> StorageKeyFile { StorageKeyFile(key: SymmetricKey(size: .bits256)) }

  /// As it is written; the caller wipes it.
  package var utf8: [UInt8] {
    // Room for all of it from the beginning, so that no copy is left behind.
    var text: [UInt8] = []
    text.reserveCapacity(256)
    for key in keys { Self.write(key, to: &text) }
    if let hashing {
      text += "hashing ".utf8
      Self.write(hashing, to: &text)
    }
    return text
  }

  /// What tells its keys from any other, in order; it gives nothing of them away.
  package var ids: [[UInt8]] { sealingKeys.map(\.id) }

  /// The same with a new key beside its only one.
  package func addingKey() -> StorageKeyFile {
    var file = self
    file.hashing = hashingKey
    repeat {
      file.keys = [keys[0], SymmetricKey(size: .bits256)]
      // Values name their key by the first bytes of its id.
    } while Set(file.sealingKeys.map(\.header)).count < 2
    return file
  }

  /// The same with only the key of this id; nil if there is none.
  package func keepingKey(_ id: [UInt8]) -> StorageKeyFile? {
    guard let index = ids.firstIndex(of: id) else { return nil }
    var file = self
    file.keys = [keys[index]]
    return file
  }

  var sealingKeys: [SealingKey] { keys.map(SealingKey.init) }

  var hashingKey: SymmetricKey { hashing ?? keys[0].derived("hashing") }

  /// 32 bytes in canonical base64.
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
    // 32 bytes in base64, and the zero that ends a text in C.
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
