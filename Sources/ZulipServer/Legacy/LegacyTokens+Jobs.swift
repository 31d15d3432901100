internal import Foundation
internal import Registrations
internal import SQL
internal import Sealing
internal import Storage

extension LegacyTokens {
  /// Takes what the bouncer has yet to be told, the longest due first, under a lease: whoever finds one due
  /// again after `seconds` may take it over. One whose token does not open stays: without a token it would mean all.
  func leaseJobs(limit: Int, for seconds: TimeInterval) async throws -> [Unregistration] {
    let now = now()
    let statement = Statement(
      """
      UPDATE legacy_unregistrations SET due_at = $2, attempts = attempts + 1
      WHERE id IN (
        SELECT id FROM legacy_unregistrations WHERE due_at <= $1 ORDER BY due_at LIMIT $3 $skip_locked)
      RETURNING id, realm_uuid, user_uuid, user_id, kind, token, attempts
      """,
      .integer(now.milliseconds), .integer((now + seconds).milliseconds), .integer(Int64(limit)))
    return try await database.execute(statement).compactMap { row in
      var token: PushToken?
      if let kind = try row.optionalInt64(4) {
        let place = SealedColumn.unregisteredToken.place(.text(try row.text(2)))
        token = try open(kind, try row.bytes(5), at: place)
        guard token != nil else { return nil }
      }
      return Unregistration(
        id: try row.int64(0), realm: try row.uuid(1),
        user: LegacyUser(id: try row.int64(3), uuid: try row.uuid(2)), token: token,
        attempts: Int(try row.int64(6)))
    }
  }

  /// The tokens that the user has here again, of those that the bouncer was to forget: an app has signed in
  /// anew meanwhile, and the bouncer may have heard of it in either order.
  func returned(after job: Unregistration) async throws -> [LegacyToken] {
    guard let uuid = job.user.uuid?.canonical else { return [] }
    let tokens = try await database.read { connection in
      let user = try connection.query(
        Statement(
          "SELECT u.id FROM users u JOIN realms r ON r.id = u.realm_id WHERE u.uuid = $1 AND r.uuid = $2",
          .text(uuid), .text(job.realm.canonical))
      ).first?.int64(0)
      return try user.map { try self.tokens(of: $0, on: connection) } ?? []
    }
    guard let gone = job.token.map(storageKey.tokenHash) else { return tokens }
    return tokens.filter { $0.token.kind == job.token?.kind && storageKey.tokenHash(of: $0.token) == gone }
  }

  /// The bouncer knows. One that another sender has taken over meanwhile is done all the same.
  func finish(_ job: Unregistration) async throws {
    _ = try await database.execute(
      Statement("DELETE FROM legacy_unregistrations WHERE id = $1", .integer(job.id)))
  }

  /// Tries again at this time; `failure` says why it was not to be had now.
  func postpone(_ job: Unregistration, until date: Date, failure: String) async throws {
    _ = try await database.execute(
      Statement(
        "UPDATE legacy_unregistrations SET due_at = $3, failure = $4 WHERE id = $1 AND attempts = $2",
        .integer(job.id), .integer(Int64(job.attempts)), .integer(date.milliseconds), .text(failure)))
  }

  /// Makes due what a wrong clock has put off further than anything ever is.
  package func bringForward() async throws {
    try await database.bringForward("legacy_unregistrations", now: now())
  }

  /// How much the bouncer has yet to be told.
  package func jobCount() async throws -> Int64 {
    let statement = Statement("SELECT COUNT(*) FROM legacy_unregistrations")
    return try await database.read { try $0.query(statement).first?.int64(0) } ?? 0
  }
}
