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
