package import Foundation
package import SQL
internal import Synchronization

/// The realms of the chat servers.
package final class RemoteRealms: Sendable {
  /// What a realm in a request is to the server that names it.
  package enum Ownership: Sendable, Hashable {
    /// Its own.
    case owned(RemoteRealm)
    /// Another server's.
    case anothersRealm
    /// No server has told of it.
    case unknown
  }

  /// Realms remembered at a time; beyond it all are forgotten and read again.
  private static let maximumKnown = 100_000

  /// How long a realm that was read is believed to be its server's: it may go to another.
  private static let lifetime = CredentialCache.lifetime

  let database: any Database
  /// Realms that have been read. They only shorten the way to a yes: one that is another server's, or not there, is
  /// looked up again.
  private let known = Mutex<[UUID: (realm: RemoteRealm, readAt: ContinuousClock.Instant)]>([:])

  /// The realms in `database`.
  package init(database: any Database) {
    self.database = database
  }

  /// The realm with this UUID.
  package func find(uuid: UUID) async throws -> RemoteRealm? {
    let readAt = ContinuousClock.now
    let statement = Statement(
      "SELECT id, server_id FROM remote_realms WHERE uuid = $1", .text(uuid.canonical))
    guard let row = try await database.lookUp(statement).first else { return nil }
    let realm = RemoteRealm(id: try row.int64(0), serverID: try row.int64(1))
    known.withLock { known in
      if known.count >= Self.maximumKnown { known.removeAll() }
      known[uuid] = (realm, readAt)
    }
    return realm
  }

  /// What a realm is to a server.
  package func find(uuid: UUID, server: Int64) async throws -> Ownership {
    if let (realm, readAt) = known.withLock({ $0[uuid] }), realm.serverID == server,
      ContinuousClock.now - readAt < Self.lifetime
    {
      return .owned(realm)
    }
    guard let realm = try await find(uuid: uuid) else { return .unknown }
    return realm.serverID == server ? .owned(realm) : .anothersRealm
  }

  /// Lets a realm go: until `end`, the next server that brings it gets it. Its present one keeps it until then.
  ///
  /// - Returns: the hostnames of the realm and of its present server; nil if there is no such realm.
  package func release(uuid: UUID, until end: Date) async throws -> (realm: String, server: String)? {
    let update = Statement(
      "UPDATE remote_realms SET released_until = $2 WHERE uuid = $1", .text(uuid.canonical),
      .integer(end.milliseconds))
    let select = Statement(
      """
      SELECT r.host, s.hostname FROM remote_realms r JOIN remote_servers s ON s.id = r.server_id
      WHERE r.uuid = $1
      """, .text(uuid.canonical))
    return try await database.write { connection in
      try connection.run(update)
      return try connection.query(select).first.map { (try $0.text(0), try $0.text(1)) }
    }
  }
}
