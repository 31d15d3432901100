import Crypto
import Foundation
import Providers
import Synchronization

/// A JWT in its compact form (RFC 7515), parsed but not verified.
///
/// Written here rather than taken from the library with which the clients sign: a verifier of its own also notices
/// what that library gets wrong, and it answers at once, on the event loop.
struct CompactJWT {
  struct Header: Decodable {
    let alg: String
    let kid: String?
  }

  let header: Header
  let claims: Data
  let signedBytes: Data
  let signature: Data

  init?(_ text: String) {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 3, let header = Base64URL.decodeUnpadded(parts[0]),
      let claims = Base64URL.decodeUnpadded(parts[1]), let signature = Base64URL.decodeUnpadded(parts[2]),
      let parsed = try? JSONDecoder().decode(Header.self, from: header)
    else { return nil }
    self.header = parsed
    self.claims = claims
    self.signature = signature
    signedBytes = Data("\(parts[0]).\(parts[1])".utf8)
  }

  func isSigned(by key: P256.Signing.PublicKey) -> Bool {
    guard header.alg == "ES256",
      let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature)
    else { return false }
    return key.isValidSignature(signature, for: signedBytes)
  }
}

/// Cache of valid tokens by their text, so that a signature is checked once and not with each push.
final class KnownTokens<Claims: Sendable>: Sendable {
  private let known = Mutex<[String: Claims]>([:])

  /// What a token claims; `verify` is called for one not seen before.
  func claims(of token: String, verify: () throws(Refusal) -> Claims) throws(Refusal) -> Claims {
    if let claims = known.withLock({ $0[token] }) { return claims }
    let claims = try verify()
    known.withLock { known in
      if known.count >= 10_000 { known.removeAll() }
      known[token] = claims
    }
    return claims
  }
}

extension Base64URL {
  /// The bytes; nil for anything with padding (RFC 7515 2) or characters outside the alphabet.
  static func decodeUnpadded(_ text: some StringProtocol) -> Data? {
    text.utf8.contains(UInt8(ascii: "=")) ? nil : decode(text).map { Data($0) }
  }
}
