internal import Foundation
internal import Registrations
internal import Sealing

/// A token of a user's old app, as the built-in chat-server side keeps it.
struct LegacyToken: Sendable, Hashable {
  /// The token, as it was first spelled.
  let token: PushToken
  /// The app's bundle id; there for APNs.
  let iosAppID: String?

  /// A token with its app.
  init(_ token: PushToken, iosAppID: String?) {
    self.token = token
    self.iosAppID = iosAppID
  }

  /// Whether a client that names this id means the same device: clients spell an APNs token in either
  /// case, and the id is one of the spelling (`Documentation/Protocols/Zulip.md` 8.2).
  func isMeant(by id: TokenID) -> Bool {
    let text = token.text
    let spellings = token.kind == .apns ? [text, text.lowercased(), text.uppercased()] : [text]
    return spellings.contains { TokenID(token: $0) == id }
  }
}

/// What the bouncer has yet to be told: that a token, or that all tokens of a user, are no longer used.
struct Unregistration: Sendable {
  /// Its place among the jobs.
  let lease: LeasedQueue.Lease
  /// The user's realm.
  let realm: UUID
  /// The user.
  let user: LegacyUser
  /// The token; nil stands for all of the user's.
  let token: PushToken?
}
