package import Foundation
import Providers
import Registrations
package import SQL
package import Sealing

/// The devices of users, their events, and their registrations to be sent to the bouncer.
///
/// Every change locks the user's row, writes the device, its events and its job in one transaction, and
/// afterwards wakes clients that wait for events.
package final class Devices: Sendable {
  /// Maximum number of devices of a user.
  static let maximumPerUser = 500

  let database: any Database
  let storageKey: StorageKey
  let now: @Sendable () -> Date
  /// The tokens of the users' old apps, which are removed when a device replaces them.
  package let legacyTokens: LegacyTokens
  /// Row id of the remote server as which this program uses its own bouncer; nil if it uses another one.
  let localServer: Int64?
  /// Wakes clients that wait for a user's events; gets the id of the user's row.
  package let changed: @Sendable (_ user: Int64) -> Void

  /// - Parameters:
  ///   - localServer: row id of the remote server as which this program uses its own bouncer: a token that no
  ///     device has any more is then unregistered there too. It is nil if this program uses another bouncer.
  ///   - changed: called after a change of a user's devices, with the id of the user's row.
  package init(
    database: any Database, storageKey: StorageKey, localServer: Int64?,
    now: @escaping @Sendable () -> Date, changed: @escaping @Sendable (Int64) -> Void
  ) {
    self.database = database
    self.storageKey = storageKey
    legacyTokens = LegacyTokens(database: database, storageKey: storageKey, now: now)
    self.localServer = localServer
    self.now = now
    self.changed = changed
  }

  /// Creates a device for a user and returns its id.
  ///
  /// - Throws: `DeviceError.tooMany`, `DeviceError.unknownDevice` if the user is gone, or the database's own
  ///   error.
  package func add(user: Int64) async throws -> Int64 {
    let now = now().milliseconds
    let id = try await database.write { connection in
      guard try connection.lock(user: user) else { throw DeviceError.unknownDevice }
      let count = try connection.query(
        Statement("SELECT COUNT(*) AS count FROM devices WHERE user_id = $1", .integer(user))
      ).returned.int64("count")
      guard count < Self.maximumPerUser else { throw DeviceError.tooMany }
      let id = try connection.query(
        Statement(
          "INSERT INTO devices (user_id, created_at) VALUES ($1, $2) RETURNING id", .integer(user),
          .integer(now))
      ).returned.int64("id")
      try connection.emit("add", device: id, user: user, now: now)
      return id
    }
    changed(user)
    return id
  }

  /// Removes a device of a user.
  func remove(_ id: Int64, user: Int64) async throws {
    let now = now().milliseconds
    try await database.write { [self] connection in
      guard try connection.lock(user: user), let device = try device(id, user: user, on: connection)
      else { throw DeviceError.unknownDevice }
      try connection.run(Statement("DELETE FROM devices WHERE id = $1", .integer(id)))
      try connection.emit("remove", device: id, user: user, now: now)
      try connection.forget(device.tokens, realmOf: user, at: localServer)
    }
    changed(user)
  }

  /// Removes a user with all devices, tokens and events.
  package func remove(user: Int64) async throws {
    try await database.write { [self] connection in
      guard try connection.lock(user: user) else { return }
      try removeAll(of: user, on: connection)
      try connection.run(Statement("DELETE FROM users WHERE id = $1", .integer(user)))
    }
    changed(user)
  }

  /// Removes everything that a user's apps have registered: their API key has changed, so they are signed out
  /// (`Documentation/Protocols/Zulip.md` 10.8). Call it in the transaction that changes the key, and
  /// ``changed`` after it.
  package func signOut(user: Int64, on connection: any Connection) throws {
    guard try connection.lock(user: user) else { return }
    for device in try removeAll(of: user, on: connection) {
      try connection.emit("remove", device: device.id, user: user, now: now().milliseconds)
    }
  }

  /// The user's row must be locked.
  @discardableResult
  private func removeAll(of user: Int64, on connection: any Connection) throws -> [Device] {
    let devices = try devices(of: user, on: connection)
    try connection.run(Statement("DELETE FROM devices WHERE user_id = $1", .integer(user)))
    try connection.forget(devices.flatMap(\.tokens), realmOf: user, at: localServer)
    try legacyTokens.removeAll(user: user, on: connection)
    return devices
  }

  /// A user's devices, and the number of the latest event that they include.
  func snapshot(user: Int64) async throws -> (devices: [Device], lastEvent: Int64) {
    try await database.read { connection in
      let last = try connection.query(
        Statement("SELECT last_event FROM users WHERE id = $1", .integer(user))
      ).first?.int64("last_event")
      return (try self.devices(of: user, on: connection), last ?? 0)
    }
  }

  /// A user's devices that get notifications. One query, so that key and token of each belong together.
  func active(user: Int64) async throws -> [Device] {
    try await database.lookUp(Self.selectActive(user)).map(device)
  }

  func active(user: Int64, on connection: any Connection) throws -> [Device] {
    try connection.query(Self.selectActive(user)).map(device)
  }

  private static func selectActive(_ user: Int64) -> Statement {
    Statement(
      "SELECT \(Device.columns) FROM devices WHERE user_id = $1 AND token_id IS NOT NULL", .integer(user))
  }

  /// Applies a client's request. If it has a new token, there is a job for the bouncer when this returns.
  ///
  /// - Returns: whether there is one.
  /// - Throws: ``DeviceError``, or the database's own error.
  func register(_ registration: DeviceRegistration, device id: Int64, user: Int64) async throws
    -> Bool
  {
    let now = now()
    let fields = try await change(id, user: user) { device, connection in
      let fields = try device.register(registration, now: now)
      if fields.contains(.pendingTokenID), let token = registration.token, let tokenID = token.id {
        try connection.run(
          Statement(
            """
            INSERT INTO device_registrations
              (device_id, token_id, bouncer_public_key, encrypted_push_registration, requested_at, due_at, attempts)
            VALUES ($1, $2, $3, $4, $5, $5, 0)
            ON CONFLICT (device_id) DO UPDATE SET
              token_id = excluded.token_id, bouncer_public_key = excluded.bouncer_public_key,
              encrypted_push_registration = excluded.encrypted_push_registration,
              requested_at = excluded.requested_at, due_at = excluded.due_at,
              attempts = device_registrations.attempts + 1
            """,
            .integer(id), .integer(tokenID.storage), .text(token.bouncerPublicKey), .text(token.sealed),
            .integer(now.milliseconds)))
      }
      return fields
    }
    return fields.contains(.pendingTokenID)
  }

  /// Removes tokens that the bouncer no longer knows.
  func removeTokens(_ tokens: [TokenID], user: Int64) async throws {
    guard !tokens.isEmpty else { return }
    let now = now().milliseconds
    let hasChanged = try await database.write { connection in
      guard try connection.lock(user: user) else { return false }
      var hasChanged = false
      for var device in try self.devices(of: user, on: connection) {
        guard let token = device.state.tokenID, tokens.contains(token) else { continue }
        let fields = device.lost(token)
        try self.save(device, fields, now: now, on: connection)
        hasChanged = hasChanged || !fields.isEmpty
      }
      return hasChanged
    }
    if hasChanged { changed(user) }
  }

  /// Changes a device, stores the change and emits its event.
  ///
  /// - Returns: the parts that have changed.
  func change(
    _ id: Int64, user: Int64,
    _ body: @escaping @Sendable (inout Device, any Connection) throws -> Device.Fields
  ) async throws -> Device.Fields {
    let now = now().milliseconds
    let fields = try await database.write { connection in
      guard try connection.lock(user: user), var device = try self.device(id, user: user, on: connection)
      else { throw DeviceError.unknownDevice }
      let fields = try body(&device, connection)
      try self.save(device, fields, now: now, on: connection)
      return fields
    }
    if !fields.isEmpty { changed(user) }
    return fields
  }
}

extension Devices {
  private func devices(of user: Int64, on connection: any Connection) throws -> [Device] {
    try connection.query(
      Statement("SELECT \(Device.columns) FROM devices WHERE user_id = $1 ORDER BY id", .integer(user))
    ).map(device)
  }

  private func device(_ id: Int64, user: Int64, on connection: any Connection) throws -> Device? {
    try connection.query(
      Statement(
        "SELECT \(Device.columns) FROM devices WHERE id = $1 AND user_id = $2", .integer(id), .integer(user))
    ).first.map(device)
  }

  private func save(_ device: Device, _ fields: Device.Fields, now: Int64, on connection: any Connection)
    throws
  {
    guard !fields.isEmpty else { return }
    let place = SealedColumn.pushKey.place(.integer(device.id))
    // nil means that there is no key yet, or that it does not open; the stored value is then kept.
    let key = device.pushKey.map { key in key.withBytes { storageKey.seal($0, at: place) } }
    try connection.run(
      Statement(
        """
        UPDATE devices SET push_key = COALESCE($2, push_key), push_key_id = $3, token_id = $4, pending_token_id = $5,
          token_updated_at = $6, error_code = $7, kind = $8
        WHERE id = $1
        """,
        arguments: [.integer(device.id), .bytes(key)] + device.state.values
          + [.integer(device.kind?.storage)]))
    try connection.emit(
      "update", device: device.id, user: device.user, device.state.members(fields), now: now)
  }

  private func device(_ row: Row) throws -> Device {
    let key = try row.optionalBytes("push_key").flatMap { sealed in
      storageKey.open(sealed, at: SealedColumn.pushKey.place(try row.value("id")))
    }.flatMap(PushKey.init)
    return Device(
      id: try row.int64("id"), user: try row.int64("user_id"), state: try Device.State(row: row),
      pushKey: key,
      kind: try row.optionalInt64("kind").flatMap(PushToken.Kind.init(storage:)))
  }
}

extension Device {
  /// The ids of its present and its pending token.
  var tokens: [TokenID] { [state.tokenID, state.pendingTokenID].compactMap(\.self) }

  fileprivate static let columns = """
    id, user_id, push_key_id, token_id, pending_token_id, token_updated_at, error_code, push_key, kind
    """
}

extension Device.State {
  fileprivate init(row: Row) throws {
    self.init()
    pushKeyID = try row.optionalInt64("push_key_id").map(UInt32.init(truncatingIfNeeded:))
    tokenID = try row.optionalInt64("token_id").map(TokenID.init(storage:))
    pendingTokenID = try row.optionalInt64("pending_token_id").map(TokenID.init(storage:))
    tokenUpdatedAt = try row.optionalDate("token_updated_at")
    error = try row.optionalText("error_code").map { Device.RegistrationError(rawValue: $0) ?? .badRequest }
  }

  fileprivate var values: [Value] {
    [
      .integer(pushKeyID.map(Int64.init)), .integer(tokenID?.storage), .integer(pendingTokenID?.storage),
      .integer(tokenUpdatedAt?.milliseconds), .text(error?.rawValue),
    ]
  }
}
