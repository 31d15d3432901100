public import Foundation
public import SQL
internal import Synchronization

/// The realms of the chat servers.
public final class RemoteRealms: Sendable {
  /// What a realm in a request is to the server that names it.
  public enum Ownership: Sendable, Hashable {
    /// Its own.
    case owned(RemoteRealm)
    /// Another server's.
    case anothersRealm
    /// No server has told of it.
    case unknown
  }

  /// Realms remembered at a time; beyond it all are forgotten and read again.
  private static let maximumKnown = 100_000

  private let database: any Database
  /// Realms that have been read. A realm keeps its row and its server for ever, so none of them is
  /// ever wrong; one that is not there may come, so that is never remembered.
  private let known = Mutex<[UUID: RemoteRealm]>([:])

  /// The realms in `database`.
  public init(database: any Database) {
    self.database = database
  }

  /// The realm with this UUID.
  public func find(uuid: UUID) async throws -> RemoteRealm? {
    if let realm = known.withLock({ $0[uuid] }) { return realm }
    let statement = Statement(
      "SELECT id, server_id FROM remote_realms WHERE uuid = $1", .text(uuid.canonical))
    guard let row = try await database.read({ try $0.query(statement).first }) else { return nil }
    let realm = RemoteRealm(id: try row.int64(0), serverID: try row.int64(1))
    known.withLock { known in
      if known.count >= Self.maximumKnown { known.removeAll() }
      known[uuid] = realm
    }
    return realm
  }

  /// What a realm is to a server.
  public func find(uuid: UUID, server: Int64) async throws -> Ownership {
    guard let realm = try await find(uuid: uuid) else { return .unknown }
    return realm.serverID == server ? .owned(realm) : .anothersRealm
  }
}
