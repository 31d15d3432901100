import Foundation

/// JSON Web Tokens in compact form (RFC 7515), which authenticate us to providers.
///
/// APNs, Google and VAPID take the same three parts, signed by swift-crypto. A library would add only reading and
/// verifying, which the providers do.
enum JWT {
  static func sign(
    header: [String: String], claims: some Encodable, with signature: (Data) throws -> Data
  ) throws -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .withoutEscapingSlashes
    let parts = [try encoder.encode(header), try encoder.encode(claims)]
    let signed = parts.map { Base64URL.encode($0) }.joined(separator: ".")
    return "\(signed).\(Base64URL.encode(try signature(Data(signed.utf8))))"
  }
}

/// Base64 with `-` and `_` (RFC 4648 section 5).
package enum Base64URL {
  /// Without padding.
  package static func encode(_ bytes: some Collection<UInt8>) -> String {
    Data(bytes).base64EncodedString(options: [.base64URLAlphabet, .omitPaddingCharacter])
  }

  /// With padding or without; nil for anything else.
  package static func decode(_ text: some StringProtocol) -> [UInt8]? {
    guard text.utf8.allSatisfy({ $0.isBase64URL || $0 == UInt8(ascii: "=") }) else { return nil }
    let isPadded = text.last == "="
    let standard = String(text).replacing("-", with: "+").replacing("_", with: "/")
    let padding = isPadded ? "" : String(repeating: "=", count: (4 - standard.utf8.count % 4) % 4)
    guard (standard.utf8.count + padding.utf8.count).isMultiple(of: 4) else { return nil }
    return Data(base64Encoded: standard + padding).map { [UInt8]($0) }
  }
}
