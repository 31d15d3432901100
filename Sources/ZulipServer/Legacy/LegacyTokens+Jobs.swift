internal import Foundation
internal import Registrations
internal import SQL
internal import Sealing

extension LegacyTokens {
  private var jobs: LeasedQueue {
    LeasedQueue(
      "legacy_unregistrations", columns: "realm_uuid, user_uuid, user_id, kind, token", database: database,
      now: now)
  }

  /// Takes what the bouncer has yet to be told. What has a token that does not open stays: without one it would mean
  /// all.
  func leaseJobs(limit: Int, for seconds: TimeInterval) async throws -> [Unregistration] {
    try await jobs.take(limit: limit, for: seconds).compactMap { lease, row in
      var token: PushToken?
      if let kind = try row.optionalInt64(3) {
        let place = SealedColumn.unregisteredToken.place(.text(try row.text(1)))
        token = try open(kind, try row.bytes(4), at: place)
        guard token != nil else { return nil }
      }
      return Unregistration(
        lease: lease, realm: try row.uuid(0), user: LegacyUser(id: try row.int64(2), uuid: try row.uuid(1)),
        token: token)
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

  /// The bouncer knows, whoever has told it.
  func finish(_ job: Unregistration) async throws { try await jobs.finish([job.lease]) }

  /// Tries again at this time; `failure` says why it was not to be had now.
  func postpone(_ job: Unregistration, until date: Date, failure: String) async throws {
    try await jobs.postpone(job.lease, until: date, changing: "failure = $5", .text(failure))
  }

  /// Makes due what a wrong clock has put off.
  ///
  /// - Parameter isTimeSetBack: as ``LeasedQueue`` has it.
  package func bringForward(isTimeSetBack: Bool = false) async throws {
    try await jobs.bringForward(isTimeSetBack: isTimeSetBack)
  }

  /// How much the bouncer has yet to be told.
  package func jobCount() async throws -> Int64 { try await jobs.count() }
}
