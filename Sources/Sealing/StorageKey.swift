internal import CSodium
internal import Crypto
internal import Foundation
internal import Synchronization

/// Protects secrets in the database: values that are needed again are sealed; values that are only compared or looked
/// up are hashed with a key.
package final class StorageKey: Sendable {
  /// What a hash is for. One name per use: the name is part of the cryptography.
  package struct Purpose: Sendable, Hashable {
    let name: String

    /// A purpose by its name, that of its table and column if it has one.
    package init(_ name: String) {
      self.name = name
    }
  }

  /// Bytes in a key.
  package static let keyBytes = 32

  private struct Ring {
    /// The key that seals, which is one of ``keys``.
    var present: SealingKey
    /// The keys that open.
    var keys: [SealingKey]
  }

  private let ring: Mutex<Ring>
  /// For as long as there is a database: what was hashed is known nowhere, so that it could not be hashed anew.
  private let hashingKey: SymmetricKey
  /// Has taken the key in, and nothing else.
  private let keyed: HMAC<SHA256>
  private let unopened = Mutex<[String: Int]>([:])

  /// The keys of a file. The first seals, unless the database says otherwise.
  package convenience init(_ file: StorageKeyFile) {
    self.init(file.sealingKeys, hashing: file.hashingKey)
  }

  /// The key of these 32 bytes.
  package convenience init(bytes: [UInt8]) {
    precondition(bytes.count == Self.keyBytes)
    let root = SymmetricKey(data: bytes)
    self.init([SealingKey(root)], hashing: root.derived("hashing"))
  }

  /// A new random key.
  package static func generate() -> StorageKey { StorageKey(StorageKeyFile.generate()) }

  private init(_ keys: [SealingKey], hashing: SymmetricKey) {
    ring = Mutex(Ring(present: keys[0], keys: keys))
    hashingKey = hashing
    keyed = HMAC(key: hashing)
  }

  /// Takes the keys of a file that has changed: what is there no longer opens nothing from now on.
  ///
  /// - Returns: whether it did; not if the key is missing that seals, or it is another database's file.
  package func take(_ file: StorageKeyFile) -> Bool {
    guard file.hashingKey == hashingKey else { return false }
    let keys = file.sealingKeys
    return ring.withLock { ring in
      guard let present = keys.first(where: { $0.id == ring.present.id }) else { return false }
      ring = Ring(present: present, keys: keys)
      return true
    }
  }

  /// Takes up the keys of a file that was changed without waiting for this process. What was sealed with the key that is
  /// gone can still be opened.
  ///
  /// - Returns: whether it did; not if the key of this id is missing, which seals from now on.
  package func catchUp(_ file: StorageKeyFile, sealingWith id: [UInt8]) -> Bool {
    guard file.hashingKey == hashingKey else { return false }
    let keys = file.sealingKeys
    guard let present = keys.first(where: { $0.id == id }) else { return false }
    ring.withLock {
      $0 = Ring(present: present, keys: keys + $0.keys.filter { !keys.map(\.id).contains($0.id) })
    }
    return true
  }

  /// Seals with the key of this id from now on.
  ///
  /// - Returns: whether it is there.
  package func seal(withKey id: [UInt8]) -> Bool {
    ring.withLock { ring in
      guard let key = ring.keys.first(where: { $0.id == id }) else { return false }
      ring.present = key
      return true
    }
  }

  /// The ids of the keys that open.
  package var ids: [[UInt8]] { ring.withLock { $0.keys.map(\.id) } }

  /// The id of the key that seals.
  package var presentID: [UInt8] { ring.withLock { $0.present.id } }

  /// Whether a value was sealed under the key that seals now, at whichever place.
  package func isPresent(_ sealed: [UInt8]) -> Bool {
    sealed.starts(with: ring.withLock { $0.present.header })
  }

  /// A value that tells this key, and those that come after it, from any other and gives nothing of it away: the
  /// database keeps it to know whose secrets it holds.
  package var fingerprint: [UInt8] { hash("fingerprint", for: Purpose("storage_key")) }

  /// The keyed hash (HMAC-SHA256, 32 bytes) of a text: equal texts have equal hashes under the
  /// same purpose, and nothing can be guessed back without the key.
  package func hash(_ text: String, for purpose: Purpose) -> [UInt8] {
    var authentication = keyed
    authentication.update(data: Array(purpose.name.utf8) + [0] + Array(text.utf8))
    return authentication.finalize().withUnsafeBytes { Array($0) }
  }

  /// Whether `hash` is the keyed hash of `text`, in a time that does not depend on where they differ.
  package func matches(_ text: String, hash expected: [UInt8], for purpose: Purpose) -> Bool {
    let actual = hash(text, for: purpose)
    guard actual.count == expected.count else { return false }
    return sodium_memcmp(actual, expected, actual.count) == 0
  }

  /// Seals bytes for a place.
  package func seal(_ plaintext: [UInt8], at place: SealedPlace) -> [UInt8] {
    ring.withLock { $0.present }.seal(plaintext, at: place)
  }

  /// Seals text for a place.
  package func seal(_ plaintext: String, at place: SealedPlace) -> [UInt8] {
    seal(Array(plaintext.utf8), at: place)
  }

  /// Opens what was sealed for the same place; nil if it was not, or was altered, which is counted.
  package func open(_ sealed: [UInt8], at place: SealedPlace) -> [UInt8]? {
    let keys = ring.withLock { $0.keys }
    for key in keys {
      if let opened = key.open(sealed, at: place) { return opened }
    }
    unopened.withLock { $0[place.column, default: 0] += 1 }
    return nil
  }

  /// Opens sealed text.
  package func openText(_ sealed: [UInt8], at place: SealedPlace) -> String? {
    open(sealed, at: place).flatMap { String(validating: $0, as: UTF8.self) }
  }

  /// How often a value of a column did not open, by the column's name.
  package var failures: [String: Int] { unopened.withLock { $0 } }
}

/// Where in the database a sealed value stands: its column, and what of its row never changes. Both are authenticated
/// along, so that a value which somebody has moved to another row opens there as little as one under another key.
package struct SealedPlace: Sendable {
  /// What it is told by in logs and metrics.
  package let column: String
  /// The column's name, ended by a zero, and each part with its kind and length: no two places look alike.
  private(set) var associatedData: [UInt8]

  /// A place in a column, by the column's name; the row follows, part by part.
  package init(column: String) {
    self.column = column
    associatedData = Array(column.utf8)
    associatedData.append(0)
  }

  /// The next part of the row's identity; nil stands for NULL.
  package mutating func append(_ number: Int64?) {
    guard let number else { return associatedData.append(0) }
    associatedData.append(1)
    withUnsafeBytes(of: number.bigEndian) { associatedData.append(contentsOf: $0) }
  }

  /// The next part of the row's identity.
  package mutating func append(text: String) { append(2, text.utf8) }

  /// The next part of the row's identity.
  package mutating func append(bytes: [UInt8]) { append(3, bytes) }

  private mutating func append(_ kind: UInt8, _ bytes: some Collection<UInt8>) {
    associatedData.append(kind)
    withUnsafeBytes(of: UInt64(bytes.count).bigEndian) { associatedData.append(contentsOf: $0) }
    associatedData.append(contentsOf: bytes)
  }
}
