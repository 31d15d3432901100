import Foundation

/// A JWT in its compact form (RFC 7515), taken apart but not believed.
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
    guard parts.count == 3, let header = Base64URL.decode(parts[0]), let claims = Base64URL.decode(parts[1]),
      let signature = Base64URL.decode(parts[2]),
      let parsed = try? JSONDecoder().decode(Header.self, from: header)
    else { return nil }
    self.header = parsed
    self.claims = claims
    self.signature = signature
    signedBytes = Data("\(parts[0]).\(parts[1])".utf8)
  }
}
