import Basics
import Crypto
import Foundation
import HTTPClient
import Synchronization

/// A subscription of a browser or a UnifiedPush distributor: the endpoint for messages and the keys to
/// encrypt them with (RFC 8030, RFC 8291).
package struct WebPushSubscription: Sendable, Hashable {
  package enum Malformed: Error, Sendable, Hashable {
    /// The text is not ``tokenPrefix`` and a base64url JSON object with the three members.
    case token
    /// Not an https URL, too long, or with a user, a password or a fragment.
    case endpoint
    /// `p256dh` is not an uncompressed point on P-256.
    case publicKey
    /// `auth` is not 16 bytes long.
    case secret
  }

  /// The prefix of a push token that holds a subscription.
  static let tokenPrefix = "webpush:"
  /// Longest token that is accepted, in bytes. Leaves room for the longest endpoint.
  private static let maximumTokenBytes = 2048

  package let endpoint: WebPushEndpoint
  /// The phone's public key, `p256dh`: 65 bytes, an uncompressed point on P-256.
  package let publicKey: [UInt8]
  /// The secret that the phone shares with its senders, `auth`: 16 bytes.
  package let secret: [UInt8]
  /// The token as it was received.
  private var spelling: String?

  /// A subscription as apps spell it: a URL, and two values in base64url with or without padding.
  package init(endpoint: String, p256dh: String, auth: String) throws(Malformed) {
    guard let endpoint = WebPushEndpoint(endpoint) else { throw .endpoint }
    guard let publicKey = Base64URL.decode(p256dh), publicKey.count == 65, publicKey[0] == 0x04,
      (try? P256.KeyAgreement.PublicKey(x963Representation: publicKey)) != nil
    else { throw .publicKey }
    guard let secret = Base64URL.decode(auth), secret.count == 16 else { throw .secret }
    self.endpoint = endpoint
    self.publicKey = publicKey
    self.secret = secret
  }

  private struct Members: Codable {
    var endpoint: String
    var p256dh: String
    var auth: String
  }

  /// A subscription as a push token: `webpush:` and base64url of `{"endpoint","p256dh","auth"}`.
  package init(token: String) throws(Malformed) {
    guard Self.isToken(token), token.utf8.count <= Self.maximumTokenBytes else { throw .token }
    let bytes = Array(token.utf8)
    if let known = Self.latest.withLock({ $0[bytes] }) {
      self = known
      return
    }
    guard let json = Base64URL.decode(token.dropFirst(Self.tokenPrefix.count)),
      let members = try? JSONDecoder().decode(Members.self, from: Data(json))
    else { throw .token }
    try self.init(endpoint: members.endpoint, p256dh: members.p256dh, auth: members.auth)
    spelling = token
    let subscription = self
    Self.latest.withLock { latest in
      if latest.count >= Self.mostKept { latest.removeAll() }
      latest[bytes] = subscription
    }
  }

  /// The subscriptions that were read last, by the bytes of their tokens: reading one takes a tenth of what a message costs.
  private static let latest = Mutex<[[UInt8]: WebPushSubscription]>([:])
  /// How many are kept, of some 1,500 bytes each. All are dropped when there are more.
  private static let mostKept = 4096

  /// Ignores the spelling.
  package static func == (left: Self, right: Self) -> Bool {
    left.endpoint == right.endpoint && left.publicKey == right.publicKey && left.secret == right.secret
  }

  package func hash(into hasher: inout Hasher) { hasher.combine(endpoint) }

  /// Whether a push token is meant to be a subscription.
  static func isToken(_ text: String) -> Bool { text.utf8.starts(with: tokenPrefix.utf8) }

  /// The subscription as a push token, in the spelling in which it was received, because others refer to it
  /// by that.
  package var token: String {
    if let spelling { return spelling }
    let members = Members(
      endpoint: endpoint.url, p256dh: Base64URL.encode(publicKey), auth: Base64URL.encode(secret))
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    // Three strings always encode.
    let json = (try? encoder.encode(members)) ?? Data()
    return Self.tokenPrefix + Base64URL.encode(json)
  }
}

/// Coded as its ``WebPushSubscription/token``.
extension WebPushSubscription: Codable {
  package init(from decoder: any Decoder) throws {
    try self.init(token: String(from: decoder))
  }

  package func encode(to encoder: any Encoder) throws { try token.encode(to: encoder) }
}

/// The https URL that a push service assigned to a subscription. A secret of the device.
package struct WebPushEndpoint: Sendable, Hashable {
  /// Longest URL that is accepted, in bytes.
  package static let maximumBytes = 765

  /// As received.
  package let url: String
  /// The push service, in lower case and without a final dot; an IPv6 address without brackets.
  package let host: String
  package let port: Int
  /// The host, with the port unless that is 443.
  package let authority: String
  /// The path with the query.
  let path: String

  /// The origin (RFC 6454), which VAPID tokens are made for.
  package var origin: String { "https://\(authority)" }

  /// Reads an https URL in ASCII with a host, and without user, password and fragment; nil for any other.
  package init?(_ url: String) {
    let scheme = "https://"
    guard url.utf8.count <= Self.maximumBytes, url.utf8.allSatisfy(Self.isPlain),
      url.hasPrefix(scheme)
    else { return nil }
    let rest = url.dropFirst(scheme.count)
    let end = rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex
    guard let (host, port) = Self.hostAndPort(rest[..<end]) else { return nil }
    self.url = url
    self.host = host
    self.port = port
    authority = Origin(host: host, port: port).authority
    path = rest[end...].hasPrefix("/") ? String(rest[end...]) : "/" + rest[end...]
  }

  /// Whether a byte may stand in an endpoint: visible ASCII but `#`, `\` and what RFC 3986 leaves out.
  private static func isPlain(_ byte: UInt8) -> Bool {
    (0x21...0x7e).contains(byte) && !##"#\"<>^`{|}"##.utf8.contains(byte)
  }

  private static func hostAndPort(_ authority: Substring) -> (host: String, port: Int)? {
    var host = authority
    var port = 443
    let bracket = authority.lastIndex(of: "]")
    if let colon = authority[(bracket ?? authority.startIndex)...].lastIndex(of: ":") {
      let digits = authority[authority.index(after: colon)...]
      guard digits.utf8.count <= 5, digits.utf8.allSatisfy(\.isDigit),
        let number = digits.isEmpty ? 443 : Int(digits), (1...65535).contains(number)
      else { return nil }
      host = authority[..<colon]
      port = number
    }
    if bracket != nil {
      guard host.first == "[", host.last == "]" else { return nil }
      let address = host.dropFirst().dropLast().lowercased()
      // Normalizes the spelling.
      guard let address = IPAddress(address), address.isIPv6 else { return nil }
      return (address.text, port)
    }
    if host.last == "." { host = host.dropLast() }
    let labels = host.split(separator: ".", omittingEmptySubsequences: false)
    guard (1...253).contains(host.utf8.count),
      labels.allSatisfy({ (1...63).contains($0.utf8.count) && $0.utf8.allSatisfy(\.isBase64URL) })
    else { return nil }
    return (host.lowercased(), port)
  }
}
