import Foundation
import HTTP
import Registrations
package import SQL
import Sealing

/// A job: a device's token to be registered at the bouncer.
struct RegistrationJob: Sendable {
  let lease: LeasedQueue.Lease
  /// Row id of its user.
  let user: Int64
  let realm: UUID
  let tokenID: TokenID
  /// The bouncer's public key, in the client's spelling.
  let bouncerPublicKey: String
  /// The registration sealed to that key, in base64.
  let sealed: String
  let requestedAt: Date

  var device: Int64 { lease.id }
}

extension Devices {
  /// Registrations to be sent to the bouncer.
  package var jobs: LeasedQueue {
    LeasedQueue(
      "device_registrations", key: "device_id",
      columns: """
        token_id, bouncer_public_key, encrypted_push_registration, requested_at,
        (SELECT user_id FROM devices WHERE id = device_id) AS user_id,
        (SELECT r.uuid FROM devices d JOIN users u ON u.id = d.user_id JOIN realms r ON r.id = u.realm_id
          WHERE d.id = device_id) AS realm_uuid
        """, database: database, now: now)
  }

  /// Leases registrations that are due.
  func leaseJobs(limit: Int, for seconds: TimeInterval) async throws -> [RegistrationJob] {
    try await jobs.take(limit: limit, for: seconds).map { lease, row in
      RegistrationJob(
        lease: lease, user: try row.int64("user_id"), realm: try row.uuid("realm_uuid"),
        tokenID: TokenID(storage: try row.int64("token_id")),
        bouncerPublicKey: try row.text("bouncer_public_key"),
        sealed: try row.text("encrypted_push_registration"), requestedAt: try row.date("requested_at"))
    }
  }

  /// Records that the bouncer has accepted a registration. From now on the token gets notifications, and the token of the
  /// device's old app is removed. If the device is gone or has another token by now, this token is unregistered again.
  func finish(_ job: RegistrationJob) async throws {
    try await complete(job) { [legacyTokens] device, connection in
      let fields = device.accepted(job.tokenID)
      if !fields.isEmpty { try legacyTokens.supersede(by: job.tokenID, user: job.user, on: connection) }
      return fields
    }
  }

  /// Records that the bouncer will never accept a registration.
  func finish(_ job: RegistrationJob, with error: Device.RegistrationError) async throws {
    try await complete(job) { device, _ in device.refused(job.tokenID, error) }
  }

  private func complete(
    _ job: RegistrationJob,
    _ change: @escaping @Sendable (inout Device, any Connection) throws -> Device.Fields
  ) async throws {
    let server = localServer
    do {
      _ = try await self.change(job.device, user: job.user) { device, connection in
        // Without a condition on the number of tries: an answer about this token counts, whoever got it.
        try connection.run(
          Statement(
            "DELETE FROM device_registrations WHERE device_id = $1 AND token_id = $2", .integer(job.device),
            .integer(job.tokenID.storage)))
        let fields = try change(&device, connection)
        if fields.isEmpty { try connection.forget([job.tokenID], realmOf: job.user, at: server) }
        return fields
      }
    } catch DeviceError.unknownDevice {
      try await database.write { try $0.forget([job.tokenID], realmOf: job.user, at: server) }
    }
  }
}

extension Connection {
  /// Stores an event under the user's next number, as JSON for clients. The user's row must be locked.
  func emit(
    _ operation: String, device: Int64, user: Int64, _ members: [JSON.Object.Member] = [], now: Int64
  ) throws {
    let number = try query(
      Statement(
        "UPDATE users SET last_event = last_event + 1 WHERE id = $1 RETURNING last_event", .integer(user))
    ).returned.int64("last_event")
    let event = JSON.Object(
      [
        .init("type", "device"), .init("op", .string(operation)), .init("device_id", .integer(device)),
        .init("id", .integer(number)),
      ] + members)
    try run(
      Statement(
        "INSERT INTO device_events (user_id, number, event, created_at) VALUES ($1, $2, $3, $4)",
        .integer(user), .integer(number), .text(JSON.object(event).text), .integer(now)))
  }

  /// Ends the registrations of tokens at this program's own bouncer, except those that another device of the
  /// realm has.
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
