internal import Foundation
internal import Registrations
internal import SQL
internal import Sealing

/// Takes servers, realms and registrations in that another bouncer has kept: many at a time, in
/// transactions of the caller's, and never over what is here already.
///
/// What it brings in is marked by its times, so that it can tell its own rows from others without a
/// column for it: E2EE registrations have no bouncer key and are registered at ``startedAt``; legacy
/// ones have an id from ``firstLegacyID`` on and are registered before ``startedAt``.
struct RegistrationImport: Sendable {
  /// When it began, in whole milliseconds.
  let startedAt: Date
  /// What it brings into `registrations` has this id or a later one.
  let firstLegacyID: Int64

  let storageKey: StorageKey
  let engine: DatabaseEngine

  /// An import that began at a time, with what was told by ``nextLegacyID(on:)`` then.
  init(storageKey: StorageKey, engine: DatabaseEngine, startedAt: Date, firstLegacyID: Int64) {
    self.storageKey = storageKey
    self.engine = engine
    self.startedAt = startedAt.stored
    self.firstLegacyID = firstLegacyID
  }

  /// The id that comes after all that are in `registrations`.
  static func nextLegacyID(on connection: any Connection) throws -> Int64 {
    let rows = try connection.query(Statement("SELECT COALESCE(MAX(id), 0) + 1 FROM registrations"))
    return try rows.first?.int64(0) ?? 1
  }

  /// Lets a transaction find rows by their indexes. Without it PostgreSQL, which knows nothing of a table
  /// that is just being filled, would read all of it for every batch.
  func preferIndexes(on connection: any Connection) throws {
    if engine == .postgreSQL { try connection.runScript("SET LOCAL enable_seqscan = off") }
  }

  /// What became of rows that were to be stored.
  struct Outcome: Sendable, Hashable {
    /// Now here.
    var imported = 0
    /// Here before; left as they were.
    var alreadyThere = 0
    /// The same device as another row of the import, which took them in.
    var folded = 0
    /// Legacy registrations of devices that have an E2EE registration with the realm.
    var superseded = 0

    /// Nothing yet.
    init() {}
  }
}
