internal import Crypto

/// What stands for a push token on the wire: the first 8 bytes of the SHA-256 of the token's
/// UTF-8 text *as spelled* (`Documentation/Protocols/Zulip.md` 5.1). An APNs token in upper case and the same
/// in lower case have different ids.
package struct TokenID: Sendable, Hashable {
  /// As a database keeps it: the 8 bytes as a big-endian signed integer.
  package let storage: Int64

  /// The id from its stored form.
  package init(storage: Int64) {
    self.storage = storage
  }

  /// The id of a token.
  package init(token: String) {
    var hash = SHA256()
    var token = token
    token.withUTF8 { hash.update(bufferPointer: UnsafeRawBufferPointer($0)) }
    let value = hash.finalize().prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    storage = Int64(bitPattern: value)
  }

  /// The id from its wire form: standard base64 with padding, 12 characters for exactly 8 bytes.
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
