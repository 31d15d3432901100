import Foundation

/// A JSON Web Token in its parts (RFC 7515), not yet verified.
///
/// Own code, because it is answered on the event loop: jwt-kit verifies in an actor, and says less
/// about what is wrong than the providers do.
struct JSONWebToken {
  let header: Data
  let claims: Data
  let signature: Data
  /// What the signature is over.
  let signingInput: Data

  init?(_ text: String) {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    guard text.utf8.count <= 8192, parts.count == 3, let header = Self.decode(parts[0]),
      let claims = Self.decode(parts[1]), let signature = Self.decode(parts[2])
    else { return nil }
    self.header = header
    self.claims = claims
    self.signature = signature
    signingInput = Data("\(parts[0]).\(parts[1])".utf8)
  }

  private static func decode(_ text: Substring) -> Data? {
    guard !text.utf8.contains(where: { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "=") })
    else { return nil }
    let base64 = text.replacing("-", with: "+").replacing("_", with: "/")
    return Data(base64Encoded: base64 + String(repeating: "=", count: (4 - base64.utf8.count % 4) % 4))
  }
}
