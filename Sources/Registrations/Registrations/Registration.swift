package import Foundation
package import SQL
package import Sealing

/// A token that a Zulip app has registered with the bouncer (`Documentation/Protocols/Zulip.md` 1.3): one for each
/// realm, shared by all accounts of the realm on that device, or, from old apps, one for each user.
package struct Registration: Sendable, Hashable {
  /// What a delivery for it refers to.
  package let reference: RegistrationReference
  /// The token, as it was first spelled.
  package let token: PushToken
  /// The app's bundle id. There is always one for APNs, but in some rows of old.
  package let iosAppID: String?

  package init(_ reference: RegistrationReference, token: PushToken, iosAppID: String?) {
    self.reference = reference
    self.token = token
    self.iosAppID = iosAppID
  }
}

/// A registration, as it was when a notification was made for it.
package struct RegistrationReference: Sendable, Hashable {
  /// The wire that it was registered over; also as the database keeps it.
  package enum Kind: Int64, Sendable, Hashable, CaseIterable {
    /// Of an app that gets end-to-end encrypted notifications.
    case e2ee = 1
    /// Of an old app, which gets them in clear.
    case legacy = 2
    /// Of a device at the Nextcloud proxy.
    case nextcloud = 3
    /// A Web Push subscription of a user of the Nextcloud server side.
    case nextcloudWebPush = 4
  }

  package let kind: Kind
  /// Its row.
  package let id: Int64
  /// When it had last been registered, in whole milliseconds: one that was renewed since does not end.
  package let registeredAt: Date

  package init(_ kind: Kind, id: Int64, registeredAt: Date) {
    self.kind = kind
    self.id = id
    self.registeredAt = registeredAt
  }

  /// From the columns `id` and `registered_at`, one after the other.
  init(_ kind: Kind, _ row: Row, _ column: Int = 0) throws {
    self.init(kind, id: try row.int64(column), registeredAt: try row.date(column + 1))
  }

  /// The arguments of `WHERE id = $1 AND registered_at = $2`.
  var arguments: [Value] { [.integer(id), .integer(registeredAt.milliseconds)] }

  /// What becomes of a row, in SQL, that is no longer called dead.
  static let notDead = "dead_since = NULL, dead_reason = NULL, dead_before = NULL, dead_route_id = NULL"
  /// What becomes of a row, in SQL, that is registered again: nothing is held against it any more.
  package static let cleanSheet = "failure = NULL, failed_at = NULL, \(notDead)"
}

/// A user as its chat server names it in legacy calls: old servers by a number, newer ones by a UUID,
/// those in between by both (`Documentation/Protocols/Zulip.md` 7.1).
package struct LegacyUser: Sendable, Hashable {
  /// Its number at its server.
  package let id: Int64?
  package let uuid: UUID?

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

  /// The arguments of ``RegistrationStore/ofUser``.
  func arguments(at server: Int64) -> [Value] {
    [.integer(server), .integer(id), .text(uuid?.canonical)]
  }
}
