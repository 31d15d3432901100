package import Foundation
package import Providers
package import SQL
import Sealing

/// A token that a Zulip app has registered with the bouncer (`Documentation/Protocols/Zulip.md` 1.3). There
/// is one registration for each realm, shared by all accounts of the realm on that device; old apps have one
/// for each user.
package struct Registration: Sendable, Hashable {
  /// Refers to this registration in a delivery.
  package let reference: RegistrationReference
  /// The token, as first spelled.
  package let token: PushToken
  /// The app's bundle id, for APNs; missing in some old rows.
  package let iosAppID: String?
  /// The bouncer that sends its notifications.
  package let home: Home
  /// The environment of APNs that has the token, if that is known.
  package let environment: APNsCredential.Environment?

  package init(
    _ reference: RegistrationReference, token: PushToken, iosAppID: String?,
    home: Home = .here(isProven: false), environment: APNsCredential.Environment? = nil
  ) {
    self.reference = reference
    self.token = token
    self.iosAppID = iosAppID
    self.home = home
    self.environment = environment
  }

  /// Where a registration's notifications are sent.
  package enum Home: Sendable, Hashable {
    /// This service. It is proven once a provider has accepted a notification from here.
    case here(isProven: Bool)
    /// Another service, to which notifications are passed on. If it is not registered there yet, the next notification
    /// registers it.
    case elsewhere(isRegistered: Bool)

    /// - Parameter value: of ``RegistrationStore/home``.
    init(_ value: Int64?) {
      self =
        switch value {
        case 0: .elsewhere(isRegistered: false)
        case 1: .elsewhere(isRegistered: true)
        default: .here(isProven: value != nil)
        }
    }

    package var isElsewhere: Bool { if case .elsewhere = self { true } else { false } }
  }
}

/// Refers to a registration in the state in which a notification was made for it.
package struct RegistrationReference: Sendable, Hashable {
  package let wire: Wire
  package let id: Int64
  /// The operator's name for it: `e2ee:12`.
  package var name: String { "\(wire):\(id)" }
  /// Time of the last registration, in whole milliseconds. An outcome of a notification that was made for an older one does
  /// not end it.
  package let registeredAt: Date

  package init(_ wire: Wire, id: Int64, registeredAt: Date) {
    self.wire = wire
    self.id = id
    self.registeredAt = registeredAt
  }

  /// Reads the columns `id` and `registered_at`, or their aliases.
  package init(_ wire: Wire, _ row: Row, id: String = "id", registeredAt: String = "registered_at") throws {
    self.init(wire, id: try row.int64(id), registeredAt: try row.date(registeredAt))
  }

  /// The arguments for `WHERE id = $1 AND registered_at = $2`.
  package var arguments: [Value] { [.integer(id), .integer(registeredAt.milliseconds)] }

  /// SQL that clears a deletion held back.
  static let notDead =
    "dead_since = NULL, dead_reason = NULL, dead_before = NULL, dead_route_id = NULL"
  /// SQL for a row that is registered again: clears its failure and a deletion held back.
  package static let clearFailureAndHold = "failure = NULL, failed_at = NULL, failed_by = NULL, \(notDead)"
  /// SQL for whether the latest notification failed. A success leaves the failure where it is.
  package static let isFailing = "failure IS NOT NULL AND (delivered_at IS NULL OR delivered_at <= failed_at)"
  /// SQL for the row of the chat server that a registration is of; NULL for Nextcloud's.
  static let chatServer =
    "COALESCE(server_id, (SELECT r.server_id FROM remote_realms r WHERE r.id = registrations.realm_id))"
}

/// A user as its chat server names it in legacy calls: old servers by number, newer ones by UUID, those in
/// between by both (`Documentation/Protocols/Zulip.md` 7.1).
package struct LegacyUser: Sendable, Hashable {
  /// The user's number at its server.
  package let id: Int64?
  package let uuid: UUID?

  package init(id: Int64, uuid: UUID) {
    self.id = id
    self.uuid = uuid
  }

  /// Returns nil if both are nil.
  package init?(id: Int64?, uuid: UUID?) {
    if id == nil && uuid == nil { return nil }
    self.id = id
    self.uuid = uuid
  }

  /// The arguments for ``RegistrationStore/ofUser``.
  package func arguments(at server: Int64) -> [Value] {
    [.integer(server), .integer(id), .text(uuid?.canonical)]
  }
}

extension APNsCredential.Environment {
  /// The value in `registrations.environment`.
  package var storage: Int64 { self == .production ? 1 : 2 }

  /// - Parameter storage: the stored value; NULL and unknown numbers mean that the environment is not known.
  package init?(storage: Int64?) {
    switch storage {
    case 1: self = .production
    case 2: self = .sandbox
    default: return nil
    }
  }
}
