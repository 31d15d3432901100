@testable import Sealing

/// `storage.key`: a file that is read is the same when it is written.
enum StorageKeyTarget: FuzzTarget {
  static let name = "storage-key"

  static func run(_ bytes: [UInt8]) throws {
    let file = bytes.withUnsafeBytes { StorageKeyFile(utf8: $0) }
    guard let file else { return }
    let again = file.utf8.withUnsafeBytes { StorageKeyFile(utf8: $0) }
    try check(
      again?.sealingKey.id == file.sealingKey.id && again?.hashingKey == file.hashingKey,
      "a file reads as it is written")
  }
}
