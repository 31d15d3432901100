package import Sealing

extension StorageKey {
  private static let tokenHashPurpose = StorageKey.Purpose("registrations.token_hash")

  /// 64 bits of a keyed hash of a token's canonical spelling: the same for the same
  /// token, whoever registers it. Enough to find rows by; the sealed token has the last word.
  package func tokenHash(of token: PushToken) -> Int64 {
    let hash = hash(token.canonical, for: Self.tokenHashPurpose)
    return Int64(bitPattern: hash.prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
  }
}

extension PushToken.Kind {
  /// As the database keeps it, and as Zulip numbers the legacy kinds.
  package var storage: Int64 {
    switch self {
    case .apns: 1
    case .fcm: 2
    }
  }

  package init?(storage: Int64) {
    switch storage {
    case 1: self = .apns
    case 2: self = .fcm
    default: return nil
    }
  }
}
