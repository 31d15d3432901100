package import Foundation

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

  /// What kind of registration.
  package let kind: Kind
  /// Its row.
  package let id: Int64
  /// When it had last been registered, in whole milliseconds: one that was renewed since does not end.
  package let registeredAt: Date

  /// A reference by its parts.
  package init(_ kind: Kind, id: Int64, registeredAt: Date) {
    self.kind = kind
    self.id = id
    self.registeredAt = registeredAt
  }

  /// What becomes of a row, in SQL, that is no longer called dead.
  static let notDead = "dead_since = NULL, dead_reason = NULL, dead_before = NULL, dead_route_id = NULL"
  /// What becomes of a row, in SQL, that is registered again: nothing is held against it any more.
  package static let cleanSheet = "failure = NULL, failed_at = NULL, \(notDead)"
}
