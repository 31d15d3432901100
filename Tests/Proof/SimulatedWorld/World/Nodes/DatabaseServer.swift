import Foundation
import Migrations
import SQL

/// The database that the nodes share. Committed data survives the end of any node.
///
/// Unchecked: the world has one thread.
final class DatabaseServer: @unchecked Sendable {
  private let handle: SQLiteHandle

  /// A database with the program's tables and nothing else.
  init(copyOf template: [UInt8]? = nil) throws {
    handle = try SQLiteHandle(path: ":memory:", busyTimeout: 0)
    if let template { try handle.load(template) }
    try handle.run("PRAGMA foreign_keys = ON")
  }

  /// The pages of a database with the program's tables.
  static func template() async throws -> [UInt8] {
    let server = try DatabaseServer()
    try await Schema.migrate(Direct(server: server))
    return server.image()
  }

  func image() -> [UInt8] { handle.image() }

  /// Runs `work` in a transaction.
  func transaction(_ kind: TransactionKind, _ work: (any Connection) throws -> Void) throws {
    try handle.run(kind == .write ? "BEGIN IMMEDIATE" : "BEGIN")
    do {
      try SQLiteConnection(handle).run(work)
      try handle.run("COMMIT")
    } catch {
      if handle.isInTransaction { try? handle.run("ROLLBACK") }
      throw error
    }
  }

  /// Reads rows without passing through a node.
  func rows(_ sql: String) -> [Row] { (try? handle.query(Statement(sql))) ?? [] }

  /// Direct access, to set up data before the world starts.
  struct Direct: Database {
    let server: DatabaseServer
    var engine: DatabaseEngine { .sqlite }
    func transaction(
      _ kind: TransactionKind, _ work: @escaping @Sendable (any Connection) throws -> Void
    ) async throws { try server.transaction(kind, work) }
    func query(_ statement: Statement) async throws -> [Row] { try server.handle.query(statement) }
    func execute(_ statement: Statement) async throws -> [Row] { try server.handle.query(statement) }
    func close() async {}
  }
}
