import Crypto
import CryptoExtras
import Foundation

/// The text of a credential's private key, and its kind: people mix up keys, certificates and files.
struct PrivateKeyText {
  enum Kind: Hashable {
    case p256, rsa
    case otherCurve, encrypted, certificate, publicKey, cutOff, damaged
    case several, notPEM, notText, empty

    /// A sentence whose subject is the file or field, without its full stop.
    var sentence: String {
      switch self {
      case .p256: "is a key on the curve P-256, as Apple's are"
      case .rsa: "is an RSA key"
      case .otherCurve: "is a key on another curve"
      case .encrypted: "has a passphrase"
      case .certificate: "is a certificate and no key"
      case .publicKey: "is a public key"
      case .cutOff: "is cut off: it has no line -----END ...-----"
      case .damaged: "is damaged, or another kind of key"
      case .several: "has several keys"
      case .notPEM: "is no PEM file: it has no line -----BEGIN PRIVATE KEY-----"
      case .notText: "is no ASCII text"
      case .empty: "is empty"
      }
    }
  }

  /// The key alone, without what stands around it.
  let text: String
  let kind: Kind

  init(_ bytes: Data) {
    // Some editors put a byte order mark before the text.
    let bytes = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes.dropFirst(3) : bytes
    // PEM is ASCII of a few thousand bytes.
    let isText = bytes.count <= 1 << 16 && bytes.allSatisfy { (1..<0x80).contains($0) }
    let whole = isText ? String(decoding: bytes, as: UTF8.self) : ""
    let keys = Self.keys(in: whole)
    text = keys.count == 1 ? String(keys[0]) : whole
    kind = bytes.isEmpty ? .empty : !isText ? .notText : keys.count > 1 ? .several : Self.kind(of: text)
  }

  /// The private keys. OpenSSL writes a key's attributes, or the parameters of its curve, before it.
  private static func keys(in text: String) -> [Substring] {
    text.matches(of: /-----BEGIN (?<label>[A-Z ]{0,32}PRIVATE KEY)-----[^-]*-----END \k<label>-----/).map(
      \.output.0)
  }

  private static func kind(of text: String) -> Kind {
    func has(_ part: String) -> Bool { text.utf8.firstRange(of: part.utf8) != nil }
    if (try? P256.Signing.PrivateKey(pemRepresentation: text)) != nil { return .p256 }
    if (try? _RSA.Signing.PrivateKey(pemRepresentation: text)) != nil { return .rsa }
    guard has("-----BEGIN ") else { return .notPEM }
    guard has("-----END ") else { return .cutOff }
    if has("ENCRYPTED") { return .encrypted }
    if has("BEGIN PUBLIC KEY") { return .publicKey }
    if has("BEGIN CERTIFICATE"), !has("PRIVATE KEY") { return .certificate }
    let isOtherCurve =
      (try? P384.Signing.PrivateKey(pemRepresentation: text)) != nil
      || (try? P521.Signing.PrivateKey(pemRepresentation: text)) != nil
    return isOtherCurve ? .otherCurve : .damaged
  }
}
