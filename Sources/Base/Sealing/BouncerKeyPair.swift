import CSodium
import Crypto

/// A bouncer's X25519 key pair: phones seal their registrations to its public key.
package struct BouncerKeyPair: Sendable {
  /// Size of either key in bytes.
  package static let keyBytes = 32

  package let publicKey: [UInt8]
  private let privateKey: SymmetricKey

  /// Generates a random pair.
  package init() { self.init(SymmetricKey(size: .bits256)) }

  /// The pair of a private key in base64; nil if that is not 32 bytes.
  package init?(privateKey base64: String) {
    guard var bytes = Base64.decodeStrictly(base64) else { return nil }
    defer { bytes.wipe() }
    guard bytes.count == Self.keyBytes else { return nil }
    self.init(SymmetricKey(data: bytes))
  }

  private init(_ privateKey: SymmetricKey) {
    var publicKey = [UInt8](repeating: 0, count: Self.keyBytes)
    _ = privateKey.withSodium { crypto_scalarmult_base(&publicKey, $0) }
    self.publicKey = publicKey
    self.privateKey = privateKey
  }

  package var publicKeyBase64: String { Base64.encode(publicKey) }

  /// The private key in base64, only for writing it to its file.
  package var privateKeyBase64: String { privateKey.withUnsafeBytes { Base64.encode($0) } }

  /// Opens a sealed box; nil if it was sealed to another key or altered.
  package func open(_ sealed: [UInt8]) -> [UInt8]? {
    guard sealed.count >= SealedBox.overhead else { return nil }
    var plaintext = [UInt8](repeating: 0, count: sealed.count - SealedBox.overhead)
    let status = privateKey.withSodium {
      crypto_box_seal_open(&plaintext, sealed, UInt64(sealed.count), publicKey, $0)
    }
    return status == 0 ? plaintext : nil
  }
}

/// The key pairs with which this bouncer opens registrations, by public key in the exact base64 spelling
/// (`Documentation/Protocols/Zulip.md` 5.4). Retired keys open like active ones, but are no longer given to
/// apps.
package struct BouncerKeyring: Sendable {
  /// A key pair and whether it is active.
  package struct Entry: Sendable {
    /// Whether new versions of the apps should contain the key.
    package enum State: String, Sendable, Codable, CaseIterable {
      case active, retired
    }

    package let pair: BouncerKeyPair
    package let state: State

    package init(pair: BouncerKeyPair, state: State) {
      self.pair = pair
      self.state = state
    }
  }

  package enum OpeningError: Error, Hashable {
    /// None of our keys has that public key.
    case unknownPublicKey
    /// Not base64, sealed to another key, or altered.
    case notOpened
  }

  private let entries: [String: Entry]

  package init(_ entries: [Entry]) {
    self.entries = Dictionary(
      entries.map { ($0.pair.publicKeyBase64, $0) }, uniquingKeysWith: { first, _ in first })
  }

  package var all: [Entry] { Array(entries.values) }

  package var isEmpty: Bool { entries.isEmpty }

  package func contains(publicKey: String) -> Bool { entries[publicKey] != nil }

  /// Opens a base64 sealed box with the key of the given public key.
  package func open(_ sealed: String, publicKey: String) throws(OpeningError) -> [UInt8] {
    guard let entry = entries[publicKey] else { throw .unknownPublicKey }
    guard let bytes = Base64.decodeLeniently(sealed), let plaintext = entry.pair.open(bytes) else {
      throw .notOpened
    }
    return plaintext
  }
}
