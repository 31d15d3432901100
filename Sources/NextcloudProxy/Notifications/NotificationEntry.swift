internal import HTTP
internal import Sealing

/// One notification for one device, as a server puts it. A class, as it is handed
/// on several times and has many parts to be counted.
final class NotificationEntry: Sendable {
  /// How soon it should arrive.
  enum Priority: String {
    case high, normal
  }

  /// What it is.
  enum Kind: String {
    /// To be shown.
    case alert
    /// A call.
    case voip
    /// One that takes others back, and is not shown itself.
    case background
  }

  /// Bytes of a ciphertext: phones have keys of 2048 bits.
  private static let ciphertextBytes = 256
  /// Bytes of a signature: those of the keys that we take.
  private static let signatureBytes = 256...512

  /// The raw 64 bytes.
  let identifier: [UInt8]
  /// The same as it was sent.
  let identifierText: String
  /// The raw 64 bytes.
  let tokenHash: [UInt8]
  /// What the phone decrypts, as it was sent: base64.
  let subject: String
  /// The same as bytes.
  let ciphertext: [UInt8]
  /// The signature of the ciphertext, as it was sent: base64.
  let signatureText: String
  /// The same as bytes.
  let signature: [UInt8]
  let priority: Priority
  let kind: Kind

  /// Reads an entry that is a text; nil if it is not an entry.
  convenience init?(text: String) {
    guard let json = try? JSON.parse(text) else { return nil }
    self.init(json)
  }

  /// Reads an entry; nil for anything else. Names of priorities and kinds that we do not know
  /// stand for the usual ones.
  init?(_ json: JSON) {
    guard let identifierText = json["deviceIdentifier"]?.string,
      let identifier = Base64.decodeStrictly(identifierText), identifier.count == 64,
      let hash = json["pushTokenHash"]?.string, let tokenHash = Hexadecimal.decode(hash),
      tokenHash.count == 64,
      let subject = json["subject"]?.string, let ciphertext = Base64.decodeStrictly(subject),
      ciphertext.count == Self.ciphertextBytes,
      let signatureText = json["signature"]?.string, let signature = Base64.decodeStrictly(signatureText),
      Self.signatureBytes.contains(signature.count),
      let priority = Self.text(json["priority"]), let kind = Self.text(json["type"])
    else { return nil }
    (self.identifier, self.identifierText, self.tokenHash) = (identifier, identifierText, tokenHash)
    (self.subject, self.ciphertext) = (subject, ciphertext)
    (self.signatureText, self.signature) = (signatureText, signature)
    self.priority = Priority(rawValue: priority) ?? .normal
    self.kind = Kind(rawValue: kind) ?? .alert
  }

  /// An optional text; empty if it is not there, nil if something else is.
  private static func text(_ json: JSON?) -> String? {
    switch json ?? .null {
    case .string: json?.string
    case .null: ""
    default: nil
    }
  }
}
