import Crypto
package import Sealing

/// A device's token from its push provider: one case for each provider. Never logged, because anyone who has it can address the
/// device.
package enum PushToken: Sendable, Hashable {
  /// Hexadecimal.
  case apns(String)
  /// Opaque text.
  case fcm(String)
  /// A subscription, as ``WebPushSubscription/init(token:)`` reads it.
  case webPush(String)

  /// The two kinds that wires tell apart.
  package enum Kind: String, Sendable, Hashable, CaseIterable {
    case apns
    /// Of an Android phone, whoever delivers to it: a token of FCM, or what apps register as one.
    case fcm
  }

  package enum Malformed: Error, Hashable, CustomStringConvertible {
    /// Empty, or more than 4096 bytes.
    case length
    /// An APNs token that is not hexadecimal.
    case notHexadecimal

    /// Zulip's error texts.
    package var description: String {
      switch self {
      case .length: "Empty or invalid length token"
      case .notHexadecimal: "Invalid APNS token"
      }
    }
  }

  /// Maximum size in bytes of a token of Apple or Google, several times what they give out: 64 hexadecimal digits, and about
  /// 160 characters. Only a Web Push subscription may be longer.
  package static let longest = 1024

  /// Parses a token of 1 to 4096 bytes. An APNs token must consist of pairs of hexadecimal digits; ASCII
  /// white space between pairs is accepted, as by Python's `bytes.fromhex`.
  package init(_ text: String, kind: Kind) throws(Malformed) {
    guard (1...4096).contains(text.utf8.count) else { throw .length }
    switch kind {
    case .apns where APNs.isToken(text): self = .apns(text)
    case .apns: throw .notHexadecimal
    case .fcm:
      switch Self.named(by: text) {
      case .webPush: self = .webPush(text)
      case .apns, .fcm, .upstream, nil: self = .fcm(text)
      }
    }
  }

  /// The provider whose tokens begin like this text; nil for those that look like no others'.
  package static func named(by text: String) -> Route.Provider? {
    prefixes.first { text.utf8.starts(with: $0.prefix.utf8) }?.provider
  }

  private static let prefixes = Route.Provider.allCases.compactMap { provider in
    provider.definition.tokenPrefix.map { (prefix: $0, provider: provider) }
  }

  package var provider: Route.Provider {
    switch self {
    case .apns: .apns
    case .fcm: .fcm
    case .webPush: .webPush
    }
  }

  package var kind: Kind {
    switch self {
    case .apns: .apns
    case .fcm, .webPush: .fcm
    }
  }

  /// The token as spelled.
  package var text: String {
    switch self {
    case .apns(let text), .fcm(let text), .webPush(let text): text
    }
  }

  /// The id by which chat servers refer to the token.
  package var id: TokenID { TokenID(token: text) }

  /// The same for all spellings of a token: lower case for APNs, unchanged for others.
  package var canonical: String {
    switch self {
    case .apns(let text): text.lowercased()
    case .fcm(let text), .webPush(let text): text
    }
  }

  /// The ids that a client may have given it: apps spell an APNs token in either case, and the id depends on that
  /// (`Documentation/Protocols/Zulip.md` 8.2).
  package var possibleIDs: Set<TokenID> {
    switch self {
    case .apns(let text): Set([text, text.lowercased(), text.uppercased()].map(TokenID.init))
    case .fcm, .webPush: [id]
    }
  }

  /// Whether it looks like one of those that the provider gives out.
  package var isPlausible: Bool {
    switch self {
    case .apns(let text): (64...200).contains(text.utf8.count) && text.utf8.allSatisfy(\.isAlphanumeric)
    case .fcm(let text): (22...Self.longest).contains(text.utf8.count) && text.utf8.allSatisfy(FCM.isOfToken)
    case .webPush(let text): (try? WebPushSubscription(token: text)) != nil
    }
  }

  /// Whether another bouncer may know it, as every bouncer knows Apple's and Google's.
  package var isOfAnyBouncer: Bool {
    switch self {
    case .apns, .fcm: true
    case .webPush: false
    }
  }

  /// The host that it names; nil where the provider is one.
  package var host: String? {
    switch self {
    case .apns, .fcm: nil
    case .webPush(let text): (try? WebPushSubscription(token: text))?.endpoint.authority
    }
  }

  /// What logs show instead: the first 8 hex digits of the token's SHA-256.
  package var fingerprint: String { Self.fingerprint(of: text) }

  /// What logs show instead of a secret text: the first 8 hex digits of its SHA-256.
  package static func fingerprint(of text: String) -> String {
    SHA256.hash(data: Array(text.utf8)).prefix(4).map { byte in
      (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }.joined()
  }
}

extension PushProviders {
  /// Whether a token may be registered: false for one that is longer than any of Apple or Google, for a malformed Web Push
  /// subscription, and for one at a host that may not be called. Waits two seconds at most for the lookup of a host.
  package func accepts(_ token: PushToken) async -> Bool {
    switch token {
    case .apns(let text), .fcm(let text): return text.utf8.count <= PushToken.longest
    case .webPush(let text):
      guard let subscription = try? WebPushSubscription(token: text) else { return false }
      return await accepts(subscription)
    }
  }
}
