internal import SQL
internal import Sealing

extension Connection {
  /// Keeps other changes of the user's devices waiting until this transaction ends; false if there is no
  /// such user.
  func lock(user: Int64) throws -> Bool {
    try run(Statement("UPDATE users SET last_event = last_event WHERE id = $1", .integer(user))) > 0
  }

  /// Numbers an event and keeps it; the user's row is locked.
  func emit(_ operation: DeviceEvent.Operation, device: Int64, user: Int64, now: Int64) throws {
    let number = try query(
      Statement(
        "UPDATE users SET last_event = last_event + 1 WHERE id = $1 RETURNING last_event", .integer(user))
    ).first?.int64(0)
    guard let number else { throw DatabaseError(.other, "an update returned no row") }
    try run(
      Statement(
        """
        INSERT INTO device_events
          (user_id, number, device_id, operation, changed, \(Device.State.columns), created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
        """,
        arguments: [.integer(user), .integer(number), .integer(device)] + operation.values + [.integer(now)]))
  }

  /// Ends the registrations of tokens at this program's own bouncer, but for those that another device of
  /// the realm has.
  func forget(_ tokens: [TokenID], realmOf user: Int64, at server: Int64?) throws {
    guard let server, !tokens.isEmpty else { return }
    try run(
      Statement(
        """
        DELETE FROM registrations
        WHERE token_id IN ($list)
          AND realm_id = (
            SELECT m.id FROM users u JOIN realms r ON r.id = u.realm_id JOIN remote_realms m ON m.uuid = r.uuid
            WHERE u.id = $1 AND m.server_id = $2)
          AND NOT EXISTS (
            SELECT 1 FROM devices d JOIN users u ON u.id = d.user_id
            WHERE u.realm_id = (SELECT realm_id FROM users WHERE id = $1)
              AND (d.token_id = registrations.token_id
                OR d.pending_token_id = registrations.token_id))
        """, .integer(user), .integer(server), list: tokens.map { .integer($0.storage) }))
  }
}
