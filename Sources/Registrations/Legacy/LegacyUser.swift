package import Foundation
package import Sealing

/// A user as its chat server names it in legacy calls: old servers by a number, newer ones by a UUID,
/// those in between by both (`Documentation/Protocols/Zulip.md` 7.1).
package struct LegacyUser: Sendable, Hashable {
  /// Its number at its server.
  package let id: Int64?
  /// Its UUID.
  package let uuid: UUID?

  /// A user with both.
  package init(id: Int64, uuid: UUID) {
    self.id = id
    self.uuid = uuid
  }

  /// nil if there is neither.
  package init?(id: Int64?, uuid: UUID?) {
    if id == nil && uuid == nil { return nil }
    self.id = id
    self.uuid = uuid
  }
}

/// A device of an old app, which gets notifications in clear (`Documentation/Protocols/Zulip.md` 1.3).
/// There is one per token and user.
package struct LegacyRegistration: Sendable, Hashable {
  /// Its row.
  package let id: Int64
  /// The token, as it was first spelled.
  package let token: PushToken
  /// The app's bundle id; some rows of old lack it.
  package let iosAppID: String?
  /// When it was last registered, in whole milliseconds.
  package let registeredAt: Date

  /// A registration by its parts.
  package init(id: Int64, token: PushToken, iosAppID: String?, registeredAt: Date) {
    self.id = id
    self.token = token
    self.iosAppID = iosAppID
    self.registeredAt = registeredAt
  }

  /// What a delivery for it refers to.
  package var reference: RegistrationReference { .init(.legacy, id: id, registeredAt: registeredAt) }
}
