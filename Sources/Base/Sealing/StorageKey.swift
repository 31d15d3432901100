import Basics
import CSodium
import Crypto
import Foundation
import Synchronization

/// Protects secrets in the database. Values that are needed again are encrypted; values that are only
/// compared or looked up are stored as keyed hashes.
package final class StorageKey: Sendable {
  /// The purpose of a hash. Its name is part of the hashed input, so it must never change.
  package struct Purpose: Sendable, Hashable {
    let name: String

    /// Creates a purpose. Its name is that of the table and column, if there is one.
    package init(_ name: String) {
      self.name = name
    }
  }

  package static let keyBytes = 32

  private let sealingKey: SealingKey
  /// An HMAC that has consumed only the key. The key never changes for a database: the hashed texts are not stored, so
  /// their hashes could not be renewed.
  private let keyed: HMAC<SHA256>
  private let unopened = Mutex<[String: Int]>([:])

  package convenience init(_ file: StorageKeyFile) {
    self.init(file.sealingKey, hashing: file.hashingKey)
  }

  /// From a root key of 32 bytes.
  package convenience init(bytes: [UInt8]) {
    precondition(bytes.count == Self.keyBytes)
    let root = SymmetricKey(data: bytes)
    self.init(SealingKey(root), hashing: root.derived("hashing"))
  }

  /// Generates a random key.
  package static func generate() -> StorageKey { StorageKey(StorageKeyFile.generate()) }

  private init(_ sealingKey: SealingKey, hashing: SymmetricKey) {
    self.sealingKey = sealingKey
    keyed = HMAC(key: hashing)
  }

  /// Identifies the sealing key without revealing it: 16 bytes.
  package var id: [UInt8] { sealingKey.id }

  /// Whether a value was sealed with this key, for any place.
  package func hasSealed(_ sealed: [UInt8]) -> Bool { sealed.starts(with: sealingKey.header) }

  /// Identifies the hashing key, which never changes, without revealing it. The database stores it, to
  /// recognize its key file.
  package var fingerprint: [UInt8] { hash("fingerprint", for: Purpose("storage_key")) }

  /// The keyed hash (HMAC-SHA256, 32 bytes) of a text. Equal for equal texts with the same purpose; the text
  /// cannot be guessed without the key.
  package func hash(_ text: String, for purpose: Purpose) -> [UInt8] {
    var authentication = keyed
    authentication.update(data: Array(purpose.name.utf8) + [0] + Array(text.utf8))
    return authentication.finalize().withUnsafeBytes { Array($0) }
  }

  /// Whether `expected` is the keyed hash of `text`. Compares in constant time.
  package func matches(_ text: String, hash expected: [UInt8], for purpose: Purpose) -> Bool {
    let actual = hash(text, for: purpose)
    guard actual.count == expected.count else { return false }
    return sodium_memcmp(actual, expected, actual.count) == 0
  }

  package func seal(_ plaintext: [UInt8], at place: SealedPlace) -> [UInt8] {
    sealingKey.seal(plaintext, at: place)
  }

  package func seal(_ plaintext: String, at place: SealedPlace) -> [UInt8] {
    seal(Array(plaintext.utf8), at: place)
  }

  /// Opens a value that was sealed for the same place; nil for any other.
  ///
  /// - Parameter isCounted: whether nil is counted as a failure: false for what a stranger may have sent.
  package func open(_ sealed: [UInt8], at place: SealedPlace, isCounted: Bool = true) -> [UInt8]? {
    if let opened = sealingKey.open(sealed, at: place) { return opened }
    if isCounted { unopened.withLock { $0[place.column, default: 0] += 1 } }
    return nil
  }

  package func openText(_ sealed: [UInt8], at place: SealedPlace) -> String? {
    open(sealed, at: place).flatMap { $0.withUnsafeBufferPointer(String.init(utf8:)) }
  }

  /// How many values did not open, by column.
  package var failures: [String: Int] { unopened.withLock { $0 } }
}

/// The place of an encrypted value in the database: its column, and the unchanging part of its row. It is
/// authenticated, so that a value that was moved to another row does not open.
package struct SealedPlace: Sendable {
  /// The column's name in logs and metrics.
  package let column: String
  /// The column's name with a zero at its end, then each part with its kind and length, so that no two places
  /// are encoded alike.
  private(set) var associatedData: [UInt8]

  /// A place in a column; the parts of the row's identity are appended.
  package init(column: String) {
    self.column = column
    associatedData = []
    // Enough for most.
    associatedData.reserveCapacity(column.utf8.count + 48)
    associatedData.append(contentsOf: column.utf8)
    associatedData.append(0)
  }

  /// Appends a part of the row's identity; nil for NULL.
  package mutating func append(_ number: Int64?) {
    guard let number else { return associatedData.append(0) }
    associatedData.append(1)
    withUnsafeBytes(of: number.bigEndian) { associatedData.append(contentsOf: $0) }
  }

  package mutating func append(text: String) { append(2, text.utf8) }

  package mutating func append(bytes: [UInt8]) { append(3, bytes) }

  private mutating func append(_ kind: UInt8, _ bytes: some Collection<UInt8>) {
    associatedData.append(kind)
    withUnsafeBytes(of: UInt64(bytes.count).bigEndian) { associatedData.append(contentsOf: $0) }
    associatedData.append(contentsOf: bytes)
  }
}
