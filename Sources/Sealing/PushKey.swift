internal import CSodium
internal import Crypto

/// The key with which a chat server encrypts notifications for one device: a first byte for the cryptosystem,
/// then the key (`Documentation/Protocols/Zulip.md` 5.5). The only cryptosystem so far is 0x31, libsodium's
/// SecretBox.
package struct PushKey: Sendable {
  static let secretBoxType: UInt8 = 0x31

  private let secret: SecretBytes

  /// Parses the wire form: canonical base64 of 33 bytes, the first of which is 0x31.
  package init?(base64: String) {
    guard var bytes = Base64.decodeStrictly(base64) else { return nil }
    defer { bytes.wipe() }
    self.init(bytes: bytes)
  }

  /// From the 33 bytes.
  package init?(bytes: [UInt8]) {
    guard bytes.count == 1 + SecretBox.keyBytes, bytes[0] == Self.secretBoxType else { return nil }
    secret = SecretBytes(bytes)
  }

  package static func generate() -> PushKey {
    var bytes = [secretBoxType] + Sodium.randomBytes(SecretBox.keyBytes)
    defer { bytes.wipe() }
    guard let key = PushKey(bytes: bytes) else {
      preconditionFailure("33 bytes that begin with 0x31 are a key")
    }
    return key
  }

  /// The wire form.
  package var base64: String { secret.withBytes { Base64.encode($0) } }

  /// Encrypts a notification as `nonce
  /// MAC
  /// ciphertext`.
  package func seal(_ plaintext: [UInt8]) -> [UInt8] {
    withKey { SecretBox.seal(plaintext, key: $0) }
  }

  /// Decrypts a notification; nil if it was encrypted with another key or altered.
  package func open(_ sealed: [UInt8]) -> [UInt8]? {
    withKey { SecretBox.open(sealed, key: $0) }
  }

  /// The 33 bytes, for storing them encrypted.
  package func withBytes<Result>(_ body: ([UInt8]) -> Result) -> Result {
    var bytes = secret.withBytes { Array($0) }
    defer { bytes.wipe() }
    return body(bytes)
  }

  private func withKey<Result>(_ body: ([UInt8]) -> Result) -> Result {
    var key = secret.withBytes { Array($0.dropFirst()) }
    defer { key.wipe() }
    return body(key)
  }
}

extension PushKey: Equatable {
  /// Compares in constant time.
  package static func == (left: PushKey, right: PushKey) -> Bool {
    left.secret.withBytes { left in
      right.secret.withBytes { right in
        left.count == right.count && sodium_memcmp(left.baseAddress, right.baseAddress, left.count) == 0
      }
    }
  }
}

/// Identifies a push token in Zulip's API: the first 8 bytes of the SHA-256 of the token's UTF-8 text *as
/// spelled* (`Documentation/Protocols/Zulip.md` 5.1). So upper and lower case of an APNs token have different
/// ids.
package struct TokenID: Sendable, Hashable {
  /// The 8 bytes as a big-endian signed integer, for the database.
  package let storage: Int64

  package init(storage: Int64) {
    self.storage = storage
  }

  package init(token: String) {
    var hash = SHA256()
    var token = token
    token.withUTF8 { hash.update(bufferPointer: UnsafeRawBufferPointer($0)) }
    let value = hash.finalize().prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    storage = Int64(bitPattern: value)
  }

  /// Parses the wire form: standard base64 with padding, 12 characters for exactly 8 bytes.
  package init?(base64: String) {
    guard base64.utf8.count == 12, let bytes = Base64.decodeStrictly(base64), bytes.count == 8 else {
      return nil
    }
    storage = Int64(bitPattern: bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
  }

  /// The wire form: standard base64 with padding, 12 characters.
  package var base64: String {
    withUnsafeBytes(of: storage.bigEndian) { Base64.encode($0) }
  }
}
