import Crypto
import Foundation
import HTTP
import HTTPTypes
import Providers
import Sealing
import Synchronization

/// Who sends a message, as its `Authorization` says (VAPID, RFC 8292): `vapid t=TOKEN, k=KEY`, or as its draft of 2016 had
/// it: `WebPush TOKEN` or `Bearer TOKEN`, with the key in `Crypto-Key: p256ecdsa=KEY`.
struct SenderAuthorization: Hashable {
  /// Bytes of either header; a token has about 300.
  private static let maximumBytes = 4096

  /// A JWT signed with ES256.
  let token: String
  /// The sender's public key as it was sent: base64url of 65 bytes.
  let key: String

  /// - Returns: nil if there is no `Authorization`.
  /// - Throws: 401 if there is one, and it is malformed.
  init?(_ headers: HTTPFields) throws(APIError) {
    guard let field = headers.value(.authorization) else { return nil }
    let keys = headers.value(.cryptoKey) ?? ""
    guard field.utf8.count <= Self.maximumBytes, keys.utf8.count <= Self.maximumBytes else {
      throw Self.malformed
    }
    let words = field.split(separator: " ", maxSplits: 1)
    guard words.count == 2 else { throw Self.malformed }
    switch words[0].lowercased() {
    case "vapid":
      let parameters = HeaderParameters(words[1])
      guard let token = parameters["t"], let key = parameters["k"] else { throw Self.malformed }
      self.init(token: token, key: key)
    case "webpush", "bearer":
      let parameters = HeaderParameters(keys)
      guard let key = parameters["p256ecdsa"] else { throw Self.malformed }
      self.init(token: String(words[1]), key: key)
    default: throw Self.malformed
    }
  }

  private init(token: String, key: String) {
    self.token = token
    self.key = key
  }

  private static var malformed: APIError {
    .unauthorizedSender("Authorization is malformed: send vapid t=TOKEN, k=KEY (RFC 8292).")
  }

  /// The key, if it has signed the token.
  ///
  /// - Throws: 403 if it has not.
  func verified() throws(APIError) -> (key: [UInt8], claims: Claims) {
    guard let bytes = Base64URL.decode(key.inBase64URL), bytes.count == 65,
      let key = try? P256.Signing.PublicKey(x963Representation: bytes)
    else {
      throw .forbiddenSender("The VAPID key is malformed: it is the base64url of 65 bytes, a point on P-256.")
    }
    let parts = token.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 3, let header = Base64URL.decode(parts[0]),
      (try? JSON.parse(header))?["alg"]?.string == "ES256", let signature = Base64URL.decode(parts[2]),
      let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature),
      key.isValidSignature(signature, for: Data("\(parts[0]).\(parts[1])".utf8))
    else { throw .forbiddenSender("The VAPID token is not signed by the VAPID key with ES256.") }
    guard let claims = Base64URL.decode(parts[1]).flatMap({ try? JSON.parse($0) }).flatMap(Claims.init) else {
      throw .forbiddenSender(
        "The VAPID token must have aud, a text or a list of texts, and exp, seconds since 1970.")
    }
    return (bytes, claims)
  }

  /// What a token says of itself.
  struct Claims: Hashable {
    private static let maximumAudience = 512
    private static let mostAudiences = 8

    /// The services that it is for.
    let audiences: [String]
    /// Seconds since 1970.
    let end: Double

    init?(_ json: JSON) {
      // Claims are remembered.
      let audiences =
        switch json["aud"] {
        case .string(let text): [text]
        case .array(let texts): texts.compactMap(\.string)
        default: [String]()
        }
      guard (1...Self.mostAudiences).contains(audiences.count),
        audiences.allSatisfy({ $0.utf8.count <= Self.maximumAudience })
      else { return nil }
      switch json["exp"] {
      case .integer(let value): end = Double(value)
      case .number(let text):
        guard let value = Double(text), value.isFinite else { return nil }
        end = value
      default: return nil
      }
      self.audiences = audiences
    }

    /// - Parameter address: of the service.
    /// - Throws: 403 if the token is for somebody else, has ended, or is valid for more than a day.
    func check(for address: String, at now: Date) throws(APIError) {
      guard audiences.contains(where: { Self.isSameOrigin($0, address) }) else {
        throw .forbiddenSender(
          "The VAPID token is for another service: aud must be the origin of the endpoint.")
      }
      // Clocks differ, and a sender may forget the endpoint because of this.
      let left = end - now.timeIntervalSince1970
      guard left > -60 else { throw .forbiddenSender("The VAPID token has expired (exp).") }
      guard left <= 86_400 + 900 else {
        throw .forbiddenSender("The VAPID token is valid for more than 24 hours (exp).")
      }
    }

    /// Whether both have the same scheme and host, and the same port, if the first names one: PHP's library leaves it out.
    private static func isSameOrigin(_ audience: String, _ address: String) -> Bool {
      guard let audience = URL(string: audience), let address = URL(string: address),
        audience.scheme?.lowercased() == address.scheme?.lowercased(),
        let host = audience.host(), host.lowercased() == address.host()?.lowercased()
      else { return false }
      return audience.port == nil || audience.port == address.port
        || audience.port == (address.scheme == "http" ? 80 : 443) && address.port == nil
    }
  }
}

/// Remembers verified tokens, which senders use for hours, so that each signature is verified once.
final class VerifiedSenders: Sendable {
  private static let maximum = 10_000

  private let known = Mutex<[SHA256Digest: (key: [UInt8], claims: SenderAuthorization.Claims)]>([:])

  func verify(_ authorization: SenderAuthorization) throws(APIError) -> (
    key: [UInt8], claims: SenderAuthorization.Claims
  ) {
    let digest = SHA256.hash(data: Data("\(authorization.key) \(authorization.token)".utf8))
    if let verified = known.withLock({ $0[digest] }) { return verified }
    let verified = try authorization.verified()
    known.withLock { known in
      if known.count >= Self.maximum { known.removeAll() }
      known[digest] = verified
    }
    return verified
  }
}

/// Parameters `name=value` in a header, with `,` or `;` between them; values may be quoted.
struct HeaderParameters {
  private var values: [String: String] = [:]

  init(_ text: some StringProtocol) {
    for parameter in text.split(whereSeparator: { $0 == "," || $0 == ";" }) {
      let pair = parameter.split(separator: "=", maxSplits: 1)
      guard pair.count == 2 else { continue }
      let name = pair[0].trimmingCharacters(in: .whitespaces).lowercased()
      values[name] = pair[1].trimmingCharacters(in: CharacterSet(charactersIn: " \t\""))
    }
  }

  subscript(name: String) -> String? { values[name] }
}

extension String {
  /// Base64 of either alphabet, padded or not, in base64url without padding: senders spell keys in their own ways.
  var inBase64URL: String { replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "") }
}

extension HTTPField.Name {
  static let timeToLive = HTTPField.Name("TTL")!  // a valid token, as the following
  static let urgency = HTTPField.Name("Urgency")!
  static let topic = HTTPField.Name("Topic")!
  static let cryptoKey = HTTPField.Name("Crypto-Key")!
  static let encryption = HTTPField.Name("Encryption")!
}
