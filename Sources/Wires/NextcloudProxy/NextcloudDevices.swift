import Basics
package import Foundation
import HTTP
import HTTPClient
import Providers
import Registrations
package import SQL
package import Sealing

/// The registrations of Nextcloud's push proxy, each identified by a device identifier and a user's key.
/// Tokens are sealed under the storage key.
package final class NextcloudDevices: Sendable {
  /// Maximum number of an identifier's registrations that never had a validly signed notification.
  static let maximumUnused = 16
  /// Maximum number of an identifier's registrations that count as used, and so are never displaced.
  static let maximumUsed = 4

  let database: any Database
  let storageKey: StorageKey
  let now: @Sendable () -> Date

  package init(database: any Database, storageKey: StorageKey, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.storageKey = storageKey
    self.now = now
  }

  /// Registers a device, or renews its registration and overwrites everything about it.
  ///
  /// Anyone who has seen a device's signed identifier could register it with a key of their own. That makes a
  /// separate row and never replaces the device's own. The number of rows per identifier is limited, so that
  /// nobody can fill the table: rows that have never been used give way, those of the same address first.
  ///
  /// - Parameters:
  ///   - owner: the caller's address.
  ///   - admit: called before a new row is inserted; if it throws, there is no new row.
  func register(
    _ registration: NextcloudDevice.Registration, of owner: Owner = .nobody,
    admit: @escaping @Sendable () throws -> Void = {}
  ) async throws {
    let place = SealedPlace.token(
      identifier: .bytes(registration.identifier), userKey: .bytes(registration.userKey))
    let values: [Value] = [
      .bytes(registration.identifier), .bytes(registration.userKey), .bytes(registration.tokenHash),
      .bytes(storageKey.seal(registration.token, at: place)),
      .integer(registration.destination.kind.rawValue), .text(registration.destination.app),
      .text(registration.destination.target), .integer(now().milliseconds),
      .integer(owner.id), .integer(pushHash(of: registration)),
    ]
    // Usually a phone renews what it registered before, which concerns no other row.
    guard try await database.execute(Statement(renewal, arguments: values)).isEmpty else { return }
    try await database.write { [self] connection in
      let rows = try connection.query("\(select) = $1", values[0]).map(device)
      let own = rows.first { $0.userKey == registration.userKey }
      // A caller who knows the token has the phone: the user's server has a new key.
      let replaced = rows.filter { $0.id != own?.id && $0.tokenHash == registration.tokenHash }
      if let taken = own ?? replaced.first {
        try remove(replaced.filter { $0.id != taken.id }, on: connection)
        try connection.run(Statement(replacement, arguments: values + [.integer(taken.id)]))
      } else {
        try admit()
        try remove(Self.displaced(from: rows, by: owner), on: connection)
        try connection.run(Statement(insertion, arguments: values))
      }
    }
  }

  private func remove(_ devices: some Collection<NextcloudDevice>, on connection: any Connection) throws {
    try connection.removeNextcloudDevices("id IN ($list)", list: devices.map { .integer($0.id) })
  }

  /// Removes a device.
  ///
  /// - Returns: whether there was one with this identifier and key.
  func remove(identifier: [UInt8], userKey: [UInt8]) async throws -> Bool {
    try await database.write { connection in
      try connection.removeNextcloudDevices(
        "device_identifier = $1 AND user_key = $2", .bytes(identifier), .bytes(userKey)) > 0
    }
  }

  /// The devices with these identifiers, in no order.
  func lookup(_ identifiers: [[UInt8]]) async throws -> [NextcloudDevice] {
    try await database.lookUp("\(select) IN ($list)", list: identifiers.map(Value.bytes)).map(device)
  }

  private func device(_ row: Row) throws -> NextcloudDevice {
    guard let kind = NextcloudDevice.Destination.Kind(rawValue: try row.int64("kind")) else {
      throw DatabaseError(.corrupt, "Nextcloud device \(try row.int64("id")) is of no known kind")
    }
    let identifier = try row.bytes("device_identifier")
    let userKey = try row.bytes("user_key")
    let place = SealedPlace.token(identifier: .bytes(identifier), userKey: .bytes(userKey))
    return NextcloudDevice(
      reference: try .init(.nextcloud, row), identifier: identifier, userKey: userKey,
      token: storageKey.openText(try row.bytes("token"), at: place), tokenHash: try row.bytes("token_sha512"),
      destination: .init(kind: kind, app: try row.text("app"), target: try row.optionalText("target")),
      isUsed: try row.flag("is_used"), seenAt: try row.date("seen_at"),
      tokenDiffersSince: try row.optionalDate("token_differs_since"),
      environment: .init(storage: try row.optionalInt64("environment")),
      owner: Owner(id: try row.int64("owner")))
  }

  /// The owner that stands for an address.
  func owner(at address: ClientAddress) -> Owner { storageKey.owner(at: address, for: Self.ownerPurpose) }

  /// A keyed hash of the token, by which registrations of all kinds with the same token are found; 0 if it is
  /// none.
  private func pushHash(of registration: NextcloudDevice.Registration) -> Int64 {
    let kind = registration.destination.kind.ofToken
    return (try? PushToken(registration.token, kind: kind)).map(storageKey.tokenHash) ?? 0
  }

  private static let ownerPurpose = StorageKey.Purpose("nextcloud.owner")
}

extension NextcloudDevices {
  /// The registrations of an identifier that give way to a new one: none that was ever used, and of the others the oldest
  /// of the same owner, else of its network, else of the network that has most.
  private static func displaced(from devices: [NextcloudDevice], by owner: Owner) -> [NextcloudDevice] {
    var unused = devices.filter { !$0.isUsed }.sorted {
      ($0.reference.registeredAt, $0.id) < ($1.reference.registeredAt, $1.id)
    }
    var displaced: [NextcloudDevice] = []
    while unused.count >= maximumUnused {
      let counts = unused.reduce(into: [:]) { $0[$1.owner.network, default: 0] += 1 }
      let most = counts.values.max()
      let index =
        unused.firstIndex { $0.owner == owner } ?? unused.firstIndex { $0.owner.network == owner.network }
        ?? unused.firstIndex { counts[$0.owner.network] == most } ?? 0
      displaced.append(unused.remove(at: index))
    }
    return displaced
  }
}

private let select = """
  SELECT id, registered_at, device_identifier, user_key, token, token_sha512, kind, app, target, is_used,
    seen_at, token_differs_since, owner, environment
  FROM registrations WHERE device_identifier
  """

/// SQL assignments of the columns that every registration overwrites.
private let assignments = """
  token = $4, kind = $5, app = $6, target = $7, registered_at = $8, seen_at = $8, owner = $9, token_hash = $10,
  token_differs_since = NULL, \(RegistrationReference.clearFailureAndHold)
  """

private let renewal = """
  UPDATE registrations SET \(assignments)
  WHERE device_identifier = $1 AND user_key = $2 AND token_sha512 = $3
  RETURNING id
  """

/// SQL condition: it has not been used yet, and so many others of its identifier have that it would never be displaced
/// again, as whoever has many keys could make many such rows.
private let isOneTooMany = """
  is_used = 0 AND (
    SELECT COUNT(*) FROM registrations AS other
    WHERE other.device_identifier = registrations.device_identifier AND other.is_used = 1) >= \(NextcloudDevices.maximumUsed)
  """

/// SQL that replaces a registration. If the row gets another key, that key has not been used yet.
private let replacement = """
  UPDATE registrations SET
    is_used = CASE WHEN user_key = $2 THEN is_used ELSE 0 END,
    device_identifier = $1, user_key = $2, token_sha512 = $3, \(assignments),
    delivered_at = CASE WHEN token_sha512 = $3 THEN delivered_at END,
    environment = CASE WHEN token_sha512 = $3 THEN environment END,
    token_changed_at = CASE WHEN token_sha512 = $3 THEN token_changed_at ELSE $8 END
  WHERE id = $11
  """

private let insertion = """
  INSERT INTO registrations
    (wire, is_used, device_identifier, user_key, token_sha512, token, kind, app, target, registered_at, seen_at, owner,
     token_hash)
  VALUES (\(Wire.nextcloud.sql), 0, $1, $2, $3, $4, $5, $6, $7, $8, $8, $9, $10)
  """

extension NextcloudDevices {
  /// A device whose key has signed a notification.
  struct Signed: Sendable {
    let device: NextcloudDevice
    /// Whether the notification names the stored token.
    let namesToken: Bool

    /// Whether the row has to be updated. Use of a device is written once a day.
    fileprivate func needsUpdate(at now: Date) -> Bool {
      !device.isUsed || now.timeIntervalSince(device.seenAt) >= 86_400
        || (device.tokenDiffersSince != nil) == namesToken
    }

    fileprivate func statement(at now: Date) -> Statement {
      let since = namesToken ? "NULL" : "COALESCE(token_differs_since, $3)"
      return Statement(
        """
        UPDATE registrations SET is_used = CASE WHEN \(isOneTooMany) THEN 0 ELSE 1 END, seen_at = $3,
          token_differs_since = \(since)
        WHERE id = $1 AND registered_at = $2
        """,
        .integer(device.id), .integer(device.reference.registeredAt.milliseconds), .integer(now.milliseconds))
    }
  }

  /// Records that devices are in use, and the times since when their servers have named other tokens than the stored
  /// ones. Devices that were registered again meanwhile are left out.
  ///
  /// - Parameter signed: of several for a device the last one counts.
  func recordUse(_ signed: [Signed]) async throws {
    let now = now()
    let last = Dictionary(signed.map { ($0.device.id, $0) }) { $1 }
    // In the order of their rows, so that two requests do not wait for each other.
    let statements = last.values.filter { $0.needsUpdate(at: now) }.sorted { $0.device.id < $1.device.id }
      .map { $0.statement(at: now) }
    guard !statements.isEmpty else { return }
    try await database.write { connection in
      for statement in statements { try connection.run(statement) }
    }
  }

  /// Removes devices that since `date` have neither been registered nor received a signed notification, and those that never
  /// received one and were not registered since `trial`, which is later.
  ///
  /// - Returns: how many were removed, at most `limit`.
  package func removeUnused(since date: Date, neverUsedSince trial: Date, limit: Int) async throws -> Int {
    let isUnused = "seen_at IS NOT NULL AND seen_at < $1 AND (is_used = 0 OR seen_at < $2)"
    let (trial, date) = (Value.integer(trial.milliseconds), Value.integer(date.milliseconds))
    // Found by a reader, so that no writer waits while many are looked at.
    let found = try await database.query(
      "SELECT id FROM registrations WHERE \(isUnused) ORDER BY seen_at LIMIT $3", trial, date,
      .integer(Int64(limit)))
    guard !found.isEmpty else { return 0 }
    let ids = try found.map { Value.integer(try $0.int64("id")) }
    return try await database.write { connection in
      try connection.removeNextcloudDevices("\(isUnused) AND id IN ($list)", trial, date, list: ids)
    }
  }
}

extension NextcloudDevices {
  /// Number of devices of an app.
  package struct Count: Sendable, Hashable {
    package let app: String
    package let kind: NextcloudDevice.Destination.Kind
    package fileprivate(set) var devices: Int64 = 0
    /// Number of them that the latest notification did not reach, by reason.
    package fileprivate(set) var failures: [String: Int64] = [:]
  }

  /// Counts the devices of each app and the failing ones among them. Reads every registration, so call it
  /// for people, or once a minute.
  package func counts() async throws -> [Count] {
    let statement = Statement(
      """
      SELECT app, kind, CASE WHEN \(RegistrationReference.isFailing) THEN failure END AS reason, COUNT(*) AS count
      FROM registrations WHERE seen_at IS NOT NULL GROUP BY 1, 2, 3 ORDER BY 1, 2
      """)
    var counts: [Count] = []
    for row in try await database.query(statement) {
      guard let kind = NextcloudDevice.Destination.Kind(rawValue: try row.int64("kind")) else { continue }
      let new = Count(app: try row.text("app"), kind: kind)
      var count = counts.last.flatMap { ($0.app, $0.kind) == (new.app, kind) ? counts.popLast() : nil } ?? new
      count.devices += try row.int64("count")
      if let reason = try row.optionalText("reason") { count.failures[reason] = try row.int64("count") }
      counts.append(count)
    }
    return counts
  }
}
