package import Basics
import Crypto
package import Foundation
import HTTPTypes
package import Hummingbird

/// User and password of an `Authorization: Basic` header (RFC 7617).
package struct BasicCredentials: Sendable {
  package let user: String
  package let password: String

  /// Why a request has none.
  package enum Fault: Error {
    /// There is no header.
    case missing
    /// The header has another scheme.
    case otherScheme
    case malformed
  }

  package init(of request: Request) throws(Fault) {
    guard let header = request.headers.value(.authorization) else { throw .missing }
    // Compares bytes: this runs for every request, and comparing characters takes ten times as long.
    let words = header.utf8.split { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
    if let scheme = words.first, !scheme.elementsEqual("basic".utf8, by: { $0 | 0x20 == $1 }) {
      throw .otherScheme
    }
    guard words.count == 2, let bytes = Data(base64Encoded: Data(words[1])),
      let colon = bytes.firstIndex(of: UInt8(ascii: ":")), !bytes[(colon + 1)...].contains(UInt8(ascii: ":")),
      let user = String(validating: bytes[..<colon], as: UTF8.self),
      let password = String(validating: bytes[(colon + 1)...], as: UTF8.self), user.isStorable,
      password.isStorable
    else { throw .malformed }
    self.user = user
    self.password = password
  }
}

/// A secret that callers present as `Authorization: Bearer` (RFC 6750).
package struct BearerToken: Sendable {
  private let hash: SHA256Digest
  private let name: String
  private let signIns: SignInGuard

  /// - Parameter name: the setting that holds the token, named in the error.
  package init(_ token: String, name: String, now: @escaping @Sendable () -> Date = { Date() }) {
    hash = Self.hash(token[...])
    self.name = name
    signIns = SignInGuard(now: now)
  }

  /// Refuses a request without the right token with 401, and one from an address that tried many wrong ones
  /// with 429.
  package func check(_ request: Request, from address: ClientAddress) throws(APIError) {
    guard let shown = request.headers[.authorization].flatMap({ $0.dropping(prefix: "bearer ") }) else {
      throw refusal
    }
    try check(String(shown), from: address)
  }

  /// Checks a token that was not presented in the header.
  package func check(_ shown: String, from address: ClientAddress) throws(APIError) {
    let attempt = SignInGuard.Attempt(from: address, account: name, secret: shown)
    try signIns.admit(attempt)
    // Hashes have the same length and are compared in constant time.
    let isRight = Self.hash(shown[...]) == hash
    signIns.record(attempt, isRight: isRight)
    if !isRight { throw refusal }
  }

  private var refusal: APIError {
    APIError(
      .unauthorized, code: "UNAUTHORIZED", "Not logged in: expected \(name) as a bearer token",
      headers: [.wwwAuthenticate: "Bearer"])
  }

  private static func hash(_ text: Substring) -> SHA256Digest { SHA256.hash(data: Data(text.utf8)) }
}
