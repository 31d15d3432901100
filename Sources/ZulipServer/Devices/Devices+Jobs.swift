internal import Foundation
internal import SQL
internal import Sealing
internal import Storage

/// A device's token on its way to the bouncer.
struct RegistrationJob: Sendable {
  /// The device.
  let device: Int64
  /// The row of its user.
  let user: Int64
  /// The realm it is registered with.
  let realm: UUID
  /// The token that the client named.
  let tokenID: TokenID
  /// The bouncer's public key, as the client spelled it.
  let bouncerPublicKey: String
  /// What is sealed to it, in base64.
  let sealed: String
  /// When the client asked.
  let requestedAt: Date
  /// How often it was tried, this time included.
  let attempts: Int
}

extension Devices {
  /// Takes registrations that are due, the longest due first, under a lease: whoever finds one due again
  /// after `seconds` may take it over.
  func leaseJobs(limit: Int, for seconds: TimeInterval) async throws -> [RegistrationJob] {
    let now = now()
    let statement = Statement(
      """
      UPDATE device_registrations SET due_at = $2, attempts = attempts + 1
      WHERE device_id IN (
        SELECT device_id FROM device_registrations WHERE due_at <= $1 ORDER BY due_at LIMIT $3 $skip_locked)
      RETURNING device_id, token_id, bouncer_public_key, encrypted_push_registration, requested_at, attempts,
        (SELECT user_id FROM devices WHERE id = device_id),
        (SELECT r.uuid FROM devices d JOIN users u ON u.id = d.user_id JOIN realms r ON r.id = u.realm_id
          WHERE d.id = device_id)
      """,
      .integer(now.milliseconds), .integer((now + seconds).milliseconds), .integer(Int64(limit)))
    return try await database.execute(statement).map { row in
      RegistrationJob(
        device: try row.int64(0), user: try row.int64(6), realm: try row.uuid(7),
        tokenID: TokenID(storage: try row.int64(1)), bouncerPublicKey: try row.text(2),
        sealed: try row.text(3), requestedAt: try row.date(4), attempts: Int(try row.int64(5)))
    }
  }

  /// Makes due what a wrong clock has put off further than anything ever is.
  package func bringForward() async throws {
    try await database.bringForward("device_registrations", now: now())
  }

  /// When the next registration is due; nil without one.
  func nextJob() async throws -> Date? {
    let statement = Statement("SELECT due_at FROM device_registrations ORDER BY due_at LIMIT 1")
    return try await database.read { try $0.query(statement).first?.date(0) }
  }

  /// How many registrations wait for the bouncer.
  package func jobCount() async throws -> Int64 {
    let statement = Statement("SELECT COUNT(*) FROM device_registrations")
    return try await database.read { try $0.query(statement).first?.int64(0) } ?? 0
  }

  /// The bouncer has accepted: from now on the token gets notifications. Where the device is gone or wants
  /// another token by now, this one goes again. The token of its old app has served.
  func finish(_ job: RegistrationJob) async throws {
    try await end(job) { [legacyTokens] device, connection in
      let fields = device.accepted(job.tokenID)
      if !fields.isEmpty { try legacyTokens.supersede(by: job.tokenID, user: job.user, on: connection) }
      return fields
    }
  }

  /// The bouncer will never accept.
  func finish(_ job: RegistrationJob, with error: Device.RegistrationError) async throws {
    try await end(job) { device, _ in device.refused(job.tokenID, error) }
  }

  /// Tries again at this time. One that another sender has taken over meanwhile is that one's.
  func postpone(_ job: RegistrationJob, until date: Date) async throws {
    _ = try await database.execute(
      Statement(
        "UPDATE device_registrations SET due_at = $3 WHERE device_id = $1 AND attempts = $2",
        .integer(job.device), .integer(Int64(job.attempts)), .integer(date.milliseconds)))
  }

  private func end(
    _ job: RegistrationJob,
    _ change: @escaping @Sendable (inout Device, any Connection) throws -> Device.Fields
  ) async throws {
    let server = localServer
    do {
      _ = try await self.change(job.device, user: job.user) { device, connection in
        // Whatever the number of tries: an answer about this token is an answer.
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
