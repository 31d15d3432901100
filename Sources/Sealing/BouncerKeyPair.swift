internal import CSodium

/// A bouncer's X25519 key pair: phones seal their registrations to its public key.
package final class BouncerKeyPair: Sendable {
  /// Bytes of either key.
  package static let keyBytes = 32

  /// The public key.
  package let publicKey: [UInt8]
  private let privateKey: SecretBytes

  /// A new random pair.
  package init() {
    Sodium.ready
    var publicKey = [UInt8](repeating: 0, count: Self.keyBytes)
    var privateKey = [UInt8](repeating: 0, count: Self.keyBytes)
    crypto_box_keypair(&publicKey, &privateKey)
    self.publicKey = publicKey
    self.privateKey = SecretBytes(privateKey)
    privateKey.wipe()
  }

  /// The pair of a private key, in base64; nil if that is not 32 bytes.
  package init?(privateKey base64: String) {
    Sodium.ready
    guard var bytes = Base64.decodeStrictly(base64) else { return nil }
    defer { bytes.wipe() }
    guard bytes.count == Self.keyBytes else { return nil }
    var publicKey = [UInt8](repeating: 0, count: Self.keyBytes)
    crypto_scalarmult_base(&publicKey, bytes)
    self.publicKey = publicKey
    privateKey = SecretBytes(bytes)
  }

  /// The public key as apps and servers name it.
  package var publicKeyBase64: String { Base64.encode(publicKey) }

  /// The private key, for its file and nothing else.
  package var privateKeyBase64: String { privateKey.withBytes { Base64.encode($0) } }

  /// Opens a sealed box; nil if it was sealed to another key or altered.
  package func open(_ sealed: [UInt8]) -> [UInt8]? {
    guard sealed.count >= SealedBox.overhead else { return nil }
    var plaintext = [UInt8](repeating: 0, count: sealed.count - SealedBox.overhead)
    let opened = privateKey.withBytes { privateKey in
      // 32 bytes, so there is an address.
      crypto_box_seal_open(&plaintext, sealed, UInt64(sealed.count), publicKey, privateKey.baseAddress!) == 0
    }
    return opened ? plaintext : nil
  }
}

/// The key pairs with which this bouncer opens registrations, by public key exactly as spelled in
/// base64 (`Documentation/Protocols/Zulip.md` 5.4). A retired key opens as an active one does; the difference
/// is only in what the operator hands out.
package struct BouncerKeyring: Sendable {
  /// One pair with its place in life.
  package struct Entry: Sendable {
    /// Whether apps should still be shipped with the key.
    package enum State: String, Sendable, Codable {
      case active, retired
    }

    /// The pair.
    package let pair: BouncerKeyPair
    /// Its place in life.
    package let state: State

    /// An entry.
    package init(pair: BouncerKeyPair, state: State) {
      self.pair = pair
      self.state = state
    }
  }

  /// Why a registration could not be opened.
  package enum OpeningError: Error, Hashable {
    /// No key of ours has that public key.
    case unknownPublicKey
    /// Not base64, sealed to another key, or altered.
    case notOpened
  }

  private let entries: [String: Entry]

  /// A ring of these keys.
  package init(_ entries: [Entry]) {
    self.entries = Dictionary(
      entries.map { ($0.pair.publicKeyBase64, $0) }, uniquingKeysWith: { first, _ in first })
  }

  /// Every key.
  package var all: [Entry] { Array(entries.values) }

  /// Whether there is no key at all.
  package var isEmpty: Bool { entries.isEmpty }

  /// Whether some key has this public key.
  package func contains(publicKey: String) -> Bool { entries[publicKey] != nil }

  /// Opens a sealed box, in base64, with the key that the caller names.
  package func open(_ sealed: String, publicKey: String) throws(OpeningError) -> [UInt8] {
    guard let entry = entries[publicKey] else { throw .unknownPublicKey }
    guard let bytes = Base64.decodeLeniently(sealed), let plaintext = entry.pair.open(bytes) else {
      throw .notOpened
    }
    return plaintext
  }
}
