internal import CSodium
internal import Crypto
internal import Foundation
internal import Synchronization

/// What secrets are kept with in the database: what must come back is sealed, what is only compared or looked up is
/// hashed with a key.
public final class StorageKey: Sendable {
  /// What a hash is for. One name per use: the name is part of the cryptography.
  public struct Purpose: Sendable, Hashable {
    let name: String

    /// A purpose by its name, that of its table and column if it has one.
    public init(_ name: String) {
      self.name = name
    }
  }

  /// Bytes in a key.
  public static let keyBytes = 32

  private let sealingKey: SealingKey
  private let hashingKey: SymmetricKey
  private let unopened = Mutex<[String: Int]>([:])

  /// A new random key, in base64, as `Keys/storage.key` holds it.
  public static func generate() -> String {
    var bytes = Sodium.randomBytes(keyBytes)
    defer { bytes.wipe() }
    return Base64.encode(bytes)
  }

  /// Reads `Keys/storage.key`: 32 bytes in base64, white space around it ignored.
  public convenience init?(base64: String) {
    let text = base64.trimmingCharacters(in: .whitespacesAndNewlines)
    guard var bytes = Base64.decodeStrictly(text) else { return nil }
    defer { bytes.wipe() }
    guard bytes.count == Self.keyBytes else { return nil }
    self.init(bytes: bytes)
  }

  /// The key of these 32 bytes.
  public init(bytes: [UInt8]) {
    precondition(bytes.count == Self.keyBytes)
    let root = SymmetricKey(data: bytes)
    sealingKey = SealingKey(root)
    hashingKey = root.derived("hashing")
  }

  /// A value that tells this key from any other and gives nothing of it away: the database keeps
  /// it to know the key it was sealed with.
  public var fingerprint: [UInt8] { hash("fingerprint", for: Purpose("storage_key")) }

  /// The keyed hash (HMAC-SHA256, 32 bytes) of a text: equal texts have equal hashes under the
  /// same purpose, and nothing can be guessed back without the key.
  public func hash(_ text: String, for purpose: Purpose) -> [UInt8] {
    var authentication = HMAC<SHA256>(key: hashingKey)
    var name = purpose.name
    var text = text
    name.withUTF8 { authentication.update(data: UnsafeRawBufferPointer($0)) }
    authentication.update(data: [0])
    text.withUTF8 { authentication.update(data: UnsafeRawBufferPointer($0)) }
    return Array(authentication.finalize())
  }

  /// Whether `hash` is the keyed hash of `text`, in a time that does not depend on where they differ.
  public func matches(_ text: String, hash expected: [UInt8], for purpose: Purpose) -> Bool {
    let actual = hash(text, for: purpose)
    guard actual.count == expected.count else { return false }
    return sodium_memcmp(actual, expected, actual.count) == 0
  }

  /// Seals bytes for a place.
  public func seal(_ plaintext: [UInt8], at place: SealedPlace) -> [UInt8] {
    sealingKey.seal(plaintext, at: place)
  }

  /// Seals text for a place.
  public func seal(_ plaintext: String, at place: SealedPlace) -> [UInt8] {
    seal(Array(plaintext.utf8), at: place)
  }

  /// Opens what was sealed for the same place; nil if it was not, or was altered, which is counted.
  public func open(_ sealed: [UInt8], at place: SealedPlace) -> [UInt8]? {
    if let opened = sealingKey.open(sealed, at: place) ?? sealingKey.openUnbound(sealed, at: place) {
      return opened
    }
    unopened.withLock { $0[place.column, default: 0] += 1 }
    return nil
  }

  /// Opens sealed text.
  public func openText(_ sealed: [UInt8], at place: SealedPlace) -> String? {
    open(sealed, at: place).flatMap { String(validating: $0, as: UTF8.self) }
  }

  /// How often a value of a column did not open, by the column's name.
  public var failures: [String: Int] { unopened.withLock { $0 } }

  /// Makes a value as they were before they were bound to their rows: for tests.
  func sealUnbound(_ plaintext: [UInt8], at place: SealedPlace) -> [UInt8] {
    sealingKey.sealUnbound(plaintext, at: place)
  }
}
