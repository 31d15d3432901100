import Crypto

/// The key with which a chat server encrypts notifications for one device: a byte for the cryptosystem, then the key
/// (`Documentation/Protocols/Zulip.md` 5.5). The only cryptosystem so far is 0x31, libsodium's SecretBox.
package struct PushKey: Sendable, Equatable {
  static let secretBoxType: UInt8 = 0x31

  /// The 32 bytes of SecretBox; compared in constant time.
  private let key: SymmetricKey

  /// Parses the wire form: canonical base64 of 33 bytes, the first of which is 0x31.
  package init?(base64: String) {
    guard var bytes = Base64.decodeStrictly(base64) else { return nil }
    defer { bytes.wipe() }
    self.init(bytes: bytes)
  }

  /// From the 33 bytes.
  package init?(bytes: [UInt8]) {
    guard bytes.count == 1 + SecretBox.keyBytes, bytes[0] == Self.secretBoxType else { return nil }
    key = SymmetricKey(data: bytes[1...])
  }

  private init(_ key: SymmetricKey) { self.key = key }

  package static func generate() -> PushKey { PushKey(SymmetricKey(size: .bits256)) }

  /// The wire form.
  package var base64: String { withBytes { Base64.encode($0) } }

  /// Encrypts a notification; see ``SecretBox`` for the format.
  package func seal(_ plaintext: [UInt8]) -> [UInt8] { SecretBox.seal(plaintext, key: key) }

  /// Decrypts a notification; nil if it was encrypted with another key or altered.
  package func open(_ sealed: [UInt8]) -> [UInt8]? { SecretBox.open(sealed, key: key) }

  /// The 33 bytes, for storing them encrypted.
  package func withBytes<Result>(_ body: ([UInt8]) -> Result) -> Result {
    var bytes = [Self.secretBoxType] + key.withUnsafeBytes { Array($0) }
    defer { bytes.wipe() }
    return body(bytes)
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

  private init(bytes: some Sequence<UInt8>) {
    storage = Int64(bitPattern: bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
  }

  package init(token: String) { self.init(bytes: SHA256.hash(data: Array(token.utf8)).prefix(8)) }

  /// Parses the wire form: standard base64 with padding, 12 characters for exactly 8 bytes.
  package init?(base64: String) {
    guard base64.utf8.count == 12, let bytes = Base64.decodeStrictly(base64), bytes.count == 8 else {
      return nil
    }
    self.init(bytes: bytes)
  }

  /// The wire form: standard base64 with padding, 12 characters.
  package var base64: String {
    withUnsafeBytes(of: storage.bigEndian) { Base64.encode($0) }
  }
}
