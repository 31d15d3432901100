internal import CSodium
internal import Crypto
internal import Foundation

/// The key under which secrets are kept in the database (`spec/decisions.md` 23): what must come
/// back is sealed, what is only compared or looked up is hashed with a key.
///
/// Sealing is XChaCha20-Poly1305 with a random nonce: `nonce (24) || ciphertext || MAC (16)`. The
/// purpose is authenticated along, so a value copied into another column does not open.
public final class StorageKey: Sendable {
  /// What a sealed or hashed value is for. One name per column: the name is part of the cryptography.
  public struct Purpose: Sendable, Hashable {
    let name: String

    /// A purpose by the name of its table and column.
    public init(_ name: String) {
      self.name = name
    }
  }

  /// Bytes in a key.
  public static let keyBytes = 32
  private static let nonceBytes = 24
  private static let macBytes = 16

  private let sealingKey: SecretBytes
  private let hashingKey: SymmetricKey

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
    Sodium.ready
    let root = SymmetricKey(data: bytes)
    func derive(_ use: String) -> SymmetricKey {
      HKDF<SHA256>.deriveKey(
        inputKeyMaterial: root, info: Data("push-bouncer \(use)".utf8), outputByteCount: Self.keyBytes)
    }
    sealingKey = derive("sealing").withUnsafeBytes { SecretBytes($0) }
    hashingKey = derive("hashing")
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

  /// Seals bytes for a column.
  public func seal(_ plaintext: [UInt8], for purpose: Purpose) -> [UInt8] {
    let nonce = Sodium.randomBytes(Self.nonceBytes)
    let name = Array(purpose.name.utf8)
    let count = Self.nonceBytes + plaintext.count + Self.macBytes
    return sealingKey.withBytes { key in
      [UInt8](unsafeUninitializedCapacity: count) { output, initialized in
        let start = output.baseAddress!  // count > 0, so there is an address
        start.update(from: nonce, count: Self.nonceBytes)
        crypto_aead_xchacha20poly1305_ietf_encrypt(
          start + Self.nonceBytes, nil, plaintext, UInt64(plaintext.count), name, UInt64(name.count), nil,
          nonce,
          key.baseAddress!)  // 32 bytes
        initialized = count
      }
    }
  }

  /// Seals text for a column.
  public func seal(_ plaintext: String, for purpose: Purpose) -> [UInt8] {
    seal(Array(plaintext.utf8), for: purpose)
  }

  /// Opens what was sealed for the same purpose; nil if it was not, or was altered.
  public func open(_ sealed: [UInt8], for purpose: Purpose) -> [UInt8]? {
    let count = sealed.count - Self.nonceBytes - Self.macBytes
    guard count >= 0 else { return nil }
    let name = Array(purpose.name.utf8)
    var opened = false
    let plaintext = sealingKey.withBytes { key in
      sealed.withUnsafeBufferPointer { input in
        [UInt8](unsafeUninitializedCapacity: count) { output, initialized in
          let start = input.baseAddress!  // longer than the overhead, so there is an address
          opened =
            crypto_aead_xchacha20poly1305_ietf_decrypt(
              output.baseAddress, nil, nil, start + Self.nonceBytes, UInt64(count + Self.macBytes), name,
              UInt64(name.count), start, key.baseAddress!) == 0  // 32 bytes
          initialized = opened ? count : 0
        }
      }
    }
    return opened ? plaintext : nil
  }

  /// Opens sealed text.
  public func openText(_ sealed: [UInt8], for purpose: Purpose) -> String? {
    open(sealed, for: purpose).flatMap { String(validating: $0, as: UTF8.self) }
  }
}
