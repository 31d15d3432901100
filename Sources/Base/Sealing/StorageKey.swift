internal import CSodium
internal import Crypto
internal import Foundation
internal import Synchronization

/// Protects secrets in the database. Values that are needed again are encrypted; values that are only
/// compared or looked up are stored as keyed hashes.
package final class StorageKey: Sendable {
  /// The use of a hash. The name is part of the hashed input, so it must never change.
  package struct Purpose: Sendable, Hashable {
    let name: String

    /// Named by table and column, if there is one.
    package init(_ name: String) {
      self.name = name
    }
  }

  package static let keyBytes = 32

  private struct Ring {
    /// The key that seals new values; one of ``keys``.
    var present: SealingKey
    /// The keys that open values.
    var keys: [SealingKey]
  }

  private let ring: Mutex<Ring>
  /// Never changes for a database: the hashed texts are not stored, so their hashes could not be renewed.
  private let hashingKey: SymmetricKey
  /// An HMAC that has consumed only the key.
  private let keyed: HMAC<SHA256>
  private let unopened = Mutex<[String: Int]>([:])

  /// The keys of a file. The first seals until the database names another.
  package convenience init(_ file: StorageKeyFile) {
    self.init(file.sealingKeys, hashing: file.hashingKey)
  }

  /// From a root key of 32 bytes.
  package convenience init(bytes: [UInt8]) {
    precondition(bytes.count == Self.keyBytes)
    let root = SymmetricKey(data: bytes)
    self.init([SealingKey(root)], hashing: root.derived("hashing"))
  }

  /// Generates a random key.
  package static func generate() -> StorageKey { StorageKey(StorageKeyFile.generate()) }

  private init(_ keys: [SealingKey], hashing: SymmetricKey) {
    ring = Mutex(Ring(present: keys[0], keys: keys))
    hashingKey = hashing
    keyed = HMAC(key: hashing)
  }

  /// Replaces the keys by those of a changed file. Keys that are no longer in it open nothing from now on.
  ///
  /// - Returns: false, without a change, if the sealing key is missing or the file belongs to another
  ///   database.
  package func take(_ file: StorageKeyFile) -> Bool { replace(by: file, sealingWith: nil, keepingOld: false) }

  /// Takes over the keys of a file that was changed before this process had followed. Values sealed with the
  /// removed key can still be opened.
  ///
  /// - Returns: false, without a change, if the key of this id, which seals from now on, is missing.
  package func catchUp(_ file: StorageKeyFile, sealingWith id: [UInt8]) -> Bool {
    replace(by: file, sealingWith: id, keepingOld: true)
  }

  private func replace(by file: StorageKeyFile, sealingWith id: [UInt8]?, keepingOld: Bool) -> Bool {
    guard file.hashingKey == hashingKey else { return false }
    let keys = file.sealingKeys
    return ring.withLock { ring in
      guard let present = keys.first(where: { $0.id == id ?? ring.present.id }) else { return false }
      let old = keepingOld ? ring.keys.filter { !keys.map(\.id).contains($0.id) } : []
      ring = Ring(present: present, keys: keys + old)
      return true
    }
  }

  /// Seals with the key of this id from now on.
  ///
  /// - Returns: whether there is such a key.
  package func seal(withKey id: [UInt8]) -> Bool {
    ring.withLock { ring in
      guard let key = ring.keys.first(where: { $0.id == id }) else { return false }
      ring.present = key
      return true
    }
  }

  package var ids: [[UInt8]] { ring.withLock { $0.keys.map(\.id) } }

  package var presentID: [UInt8] { ring.withLock { $0.present.id } }

  /// Whether a value was sealed with the present sealing key, for any place.
  package func isPresent(_ sealed: [UInt8]) -> Bool {
    sealed.starts(with: ring.withLock { $0.present.header })
  }

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
    ring.withLock { $0.present }.seal(plaintext, at: place)
  }

  package func seal(_ plaintext: String, at place: SealedPlace) -> [UInt8] {
    seal(Array(plaintext.utf8), at: place)
  }

  /// Opens a value that was sealed for the same place; nil, which is counted as a failure, for any other.
  package func open(_ sealed: [UInt8], at place: SealedPlace) -> [UInt8]? {
    let keys = ring.withLock { $0.keys }
    for key in keys {
      if let opened = key.open(sealed, at: place) { return opened }
    }
    unopened.withLock { $0[place.column, default: 0] += 1 }
    return nil
  }

  package func openText(_ sealed: [UInt8], at place: SealedPlace) -> String? {
    open(sealed, at: place).flatMap { String(validating: $0, as: UTF8.self) }
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
    associatedData = Array(column.utf8)
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
