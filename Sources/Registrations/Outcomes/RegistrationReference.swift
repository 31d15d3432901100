package import Foundation

/// A registration of any kind, as it was when a notification was made for it.
package struct RegistrationReference: Sendable, Hashable {
  /// What kind of registration; also as the outbox keeps it.
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

  /// The row, whatever has become of it since.
  package var row: Row { Row(kind: kind, id: id) }

  /// A row of one kind of registration.
  package struct Row: Sendable, Hashable {
    /// What kind of registration.
    package let kind: Kind
    /// Its row.
    package let id: Int64

    /// A row by its parts.
    package init(kind: Kind, id: Int64) {
      self.kind = kind
      self.id = id
    }
  }
}
