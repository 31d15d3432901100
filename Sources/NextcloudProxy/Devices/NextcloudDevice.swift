package import Foundation
package import Providers
package import Registrations
internal import SQL

/// A device that Nextcloud's push proxy sends to: one account in one app on one phone, known by an identifier
/// that the account's server has made, together with the key that the server signs with for its user.
package struct NextcloudDevice: Sendable {
  /// What a device is registered as, as it was told.
  package struct Registration: Sendable, Hashable {
    /// The raw 64 bytes of the identifier.
    package var identifier: [UInt8]
    /// The public key of the user whose server has signed the identifier: a SubjectPublicKeyInfo.
    package var userKey: [UInt8]
    /// The push token exactly as it was sent.
    package var token: String
    /// The SHA-512 of the token's UTF-8, as servers know it.
    package var tokenHash: [UInt8]
    /// Where the token is good.
    package var destination: Destination

    /// A registration by its parts.
    package init(
      identifier: [UInt8], userKey: [UInt8], token: String, tokenHash: [UInt8], destination: Destination
    ) {
      self.identifier = identifier
      self.userKey = userKey
      self.token = token
      self.tokenHash = tokenHash
      self.destination = destination
    }
  }

  /// Whose app a token is of, and who takes notifications for it.
  package struct Destination: Sendable, Hashable {
    /// What kind of token it is; also as the database keeps it.
    package enum Kind: Int64, Sendable, Hashable, CaseIterable {
      /// One of APNs, or one of APNs and one of PushKit with a space between.
      case apns = 1
      /// One of FCM.
      case fcm = 2
      /// One of PushKit, as Talk of 2018 to 2020 sends it.
      case pushKit = 3
    }

    /// What kind of token.
    package var kind: Kind
    /// The name of the app, for the operator.
    package var app: String
    /// The app's bundle id, or its Firebase project; nil is the default project.
    package var target: String?

    /// A destination by its parts.
    package init(_ kind: Kind, app: String, target: String?) {
      self.kind = kind
      self.app = app
      self.target = target
    }
  }

  /// Its row.
  package let id: Int64
  /// The raw 64 bytes of its identifier.
  package let identifier: [UInt8]
  /// The public key that notifications for it are signed with: a SubjectPublicKeyInfo.
  package let userKey: [UInt8]
  /// The push token exactly as it was sent; nil if what is kept is damaged.
  package let token: String?
  /// The SHA-512 of the token's UTF-8.
  package let tokenHash: [UInt8]
  /// Where the token is good.
  package let destination: Destination
  /// When it was last registered, in whole milliseconds.
  package let registeredAt: Date
  /// Whether a notification signed by its key has ever come.
  package let isUsed: Bool
  /// When it was last registered, or such a notification came: to the day.
  package let seenAt: Date
  /// Since when its server names another token than the one that is kept; nil if it does not.
  package let tokenDiffersSince: Date?
  /// The address that has registered it last.
  package let owner: Owner

  /// What a delivery for it refers to.
  package var reference: RegistrationReference { .init(.nextcloud, id: id, registeredAt: registeredAt) }
}

extension NextcloudDevices {
  /// Devices of one app.
  package struct Count: Sendable, Hashable {
    /// The name of the app.
    package let app: String
    /// What kind of token.
    package let kind: NextcloudDevice.Destination.Kind
    /// How many there are.
    package let devices: Int64
    /// By the reason why the latest notification for a device failed, if one has since it was last
    /// registered: how many there are.
    package let failures: [String: Int64]
  }

  /// How many devices there are of each app, and how many of them fail. Reads every registration: for
  /// people and for once a minute.
  package func counts() async throws -> [Count] {
    let statement = Statement(
      "SELECT app, kind, failure, COUNT(*) FROM registrations WHERE seen_at IS NOT NULL GROUP BY app, kind, failure"
    )
    let rows = try await database.query(statement).map { row in
      (
        app: try row.text(0), kind: NextcloudDevice.Destination.Kind(rawValue: try row.int64(1)),
        failure: try row.optionalText(2), devices: try row.int64(3)
      )
    }
    return Dictionary(grouping: rows) { "\($0.app) \($0.kind?.rawValue ?? 0)" }.values.compactMap { rows in
      guard let first = rows.first, let kind = first.kind else { return nil }
      return Count(
        app: first.app, kind: kind, devices: rows.reduce(0) { $0 + $1.devices },
        failures: rows.reduce(into: [:]) { failures, row in
          if let failure = row.failure { failures[failure] = row.devices }
        })
    }.sorted { ($0.app, $0.kind.rawValue) < ($1.app, $1.kind.rawValue) }
  }

  /// A database that keeps devices, as it looks from outside.
  package struct StoreState: Sendable, Hashable {
    /// What no other database has; 16 bytes.
    package var id: [UInt8]
    /// How many devices it has.
    package var devices: Int64
    /// How many have been removed from it, ever, by this program.
    package var removed: Int64

    /// A state by its parts.
    package init(id: [UInt8], devices: Int64, removed: Int64 = 0) {
      self.id = id
      self.devices = devices
      self.removed = removed
    }
  }

  /// The state of the database; one that is asked for the first time is given its id. Counts every device.
  package func storeState() async throws -> StoreState {
    if let state = try await state(countingTo: .max) { return state }
    let id = (0..<16).map { _ in UInt8.random(in: .min ... .max) }
    _ = try await database.execute(
      Statement(
        "INSERT INTO metadata (name, value) VALUES ('nextcloud_store', $1) ON CONFLICT (name) DO NOTHING",
        .bytes(id)))
    guard let state = try await state(countingTo: .max) else {
      throw DatabaseError(.other, "the store has no id")
    }
    return state
  }

  /// Its state with so many of its devices counted at most; nil if it has no id yet.
  package func state(countingTo limit: Int64) async throws -> StoreState? {
    let statement = Statement(
      """
      SELECT value, (SELECT COUNT(*) FROM (SELECT 1 FROM registrations WHERE seen_at IS NOT NULL LIMIT $1) AS counted),
        COALESCE((SELECT devices FROM nextcloud_removals WHERE id = 1), 0)
      FROM metadata WHERE name = 'nextcloud_store'
      """, .integer(limit))
    return try await database.query(statement).first.map { row in
      StoreState(id: try row.bytes(0), devices: try row.int64(1), removed: try row.int64(2))
    }
  }
}
