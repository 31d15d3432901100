package import Foundation
import HTTP
package import Providers
package import Registrations
package import SQL
import Sealing

/// The queues of what is passed on later: servers' reports, and old apps' tokens that are no longer used.
extension UpstreamLinks {
  /// Number of reports that are passed on at once.
  package static let reportsAtOnce = 8
  /// Number of unregistrations that are passed on at once.
  package static let unregistrationsAtOnce = 32
  /// Number of these that may be of one server.
  private static let unregistrationsOfServer = 4

  /// The servers whose reports are to be passed on.
  package var reports: LeasedQueue {
    LeasedQueue(
      "upstream_links", key: "server_id",
      where: "org_key IS NOT NULL AND \(Self.isIdle(Self.reportsAtOnce))", database: database, now: now)
  }

  /// Old apps' tokens that are no longer used and that the upstream bouncer has yet to unregister.
  package var unregistrations: LeasedQueue {
    LeasedQueue(
      "upstream_unregistrations", columns: "server_id, user_id, user_uuid, kind, token_hash, form",
      where: Self.isIdle(Self.unregistrationsAtOnce), inTurnsOf: "server_id",
      share: Self.unregistrationsOfServer, database: database, now: now)
  }

  /// SQL condition that excludes busy servers, of which there are at most this many.
  private static func isIdle(_ most: Int) -> String {
    "server_id NOT IN (\(Statement.placeholders(most, from: 4)))"
  }

  private static func busy(_ servers: Set<Int64>, most: Int) -> [Value] {
    servers.map(Value.integer) + Array(repeating: .integer(0), count: most - servers.count)
  }

  /// Leases due reports of servers that are not busy.
  package func leaseReports(
    _ limit: Int, besides busy: Set<Int64>, for seconds: TimeInterval
  ) async throws -> [(server: Int64, lease: LeasedQueue.Lease)] {
    try await reports.take(
      limit: limit, for: seconds, arguments: Self.busy(busy, most: Self.reportsAtOnce)
    ).map { ($0.lease.id, $0.lease) }
  }

  /// SQL assignment that records in a server's link up to which ids the upstream bouncer has accepted its reports.
  package static let setAccepted =
    Reports.List.allCases.enumerated().map { "\($1.acceptedColumn) = $\($0 + 5)" }.joined(separator: ", ")

  /// A token, or all tokens of a user, to be unregistered at the upstream bouncer.
  package struct Unregistration: Sendable {
    package let lease: LeasedQueue.Lease
    package let server: Int64
    /// Whether all tokens of the user are meant.
    package var isOfAll: Bool { token[0] == .null }
    /// The parameters of the call; nil if they do not open.
    package let form: [UInt8]?
    let user: [Value]
    let token: [Value]
  }

  /// Maximum number of a server's unregistrations that wait.
  static let mostUnregistrations: Int64 = 50_000

  /// Queues the unregistration of a token at the upstream bouncer.
  ///
  /// - Parameters:
  ///   - token: nil for all tokens of the user.
  ///   - form: the parameters of the call.
  /// - Throws: 503 if too many wait.
  package func unregister(
    _ token: PushToken?, of user: LegacyUser, server: Int64, form: [UInt8]
  ) async throws {
    let names = user.arguments(at: server)
    let hash = Value.integer(token.map(storageKey.tokenHash))
    let sealed = storageKey.seal(form, at: SealedColumn.upstreamForm.place(names + [hash]))
    let waiting = "SELECT COUNT(*) AS count FROM upstream_unregistrations WHERE server_id = $1"
    guard try await database.query(waiting, names[0]).returned.int64("count") < Self.mostUnregistrations
    else {
      throw APIError.unavailable(
        "Too many unregistrations wait for the upstream bouncer", retryAfter: 60)
    }
    _ = try await database.execute(
      Statement(
        """
        INSERT INTO upstream_unregistrations
          (server_id, user_id, user_uuid, kind, token_hash, form, due_at, attempts)
        VALUES ($1, $2, $3, $4, $5, $6, $7, 0)
        """,
        arguments: names + [
          .integer(token?.kind.storage), hash, .bytes(sealed), .integer(now().milliseconds),
        ]))
  }

  /// Leases a few due unregistrations of each server that is not busy, servers in turn.
  package func leaseUnregistrations(
    _ limit: Int, besides busy: Set<Int64>, for seconds: TimeInterval
  ) async throws -> [Unregistration] {
    try await unregistrations.take(
      limit: limit, for: seconds, arguments: Self.busy(busy, most: Self.unregistrationsAtOnce)
    ).map { lease, row in
      let server = try row.int64("server_id")
      let user = [try row.value("user_id"), try row.value("user_uuid")]
      let hash = try row.value("token_hash")
      let place = SealedColumn.upstreamForm.place([.integer(server)] + user + [hash])
      return Unregistration(
        lease: lease, server: server, form: storageKey.open(try row.bytes("form"), at: place), user: user,
        token: [try row.value("kind"), hash])
    }
  }

  /// Finishes an unregistration. A token that was registered again meanwhile is registered once more with its next
  /// notification, since nobody knows which call came first.
  package func finish(_ job: Unregistration) async throws {
    let removal = unregistrations.removal(of: job.lease)
    try await database.write { connection in
      try connection.run(
        Statement(
          """
          UPDATE registrations SET elsewhere = 0
          WHERE wire = \(Wire.legacy.sql) AND elsewhere = 1 AND \(RegistrationStore.ofUser)
            \(job.isOfAll ? "" : "AND kind = $4 AND token_hash = $5")
          """, arguments: [.integer(job.server)] + job.user + (job.isOfAll ? [] : job.token)))
      try connection.run(removal)
    }
  }
}

extension UpstreamLinks {
  /// SQL condition for a report's rows that the upstream bouncer has accepted or does not need.
  package static func isAccepted(_ list: Reports.List) -> String {
    """
    NOT EXISTS (SELECT 1 FROM upstream_links WHERE upstream_links.server_id = \(list.table).server_id
      AND \(list.acceptedColumn) < remote_id)
    """
  }
}

extension Reports.List {
  /// The column of `upstream_links` with the last id that the upstream bouncer has accepted.
  var acceptedColumn: String { "given_\(id)" }
}
