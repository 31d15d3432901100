internal import PostgreSQLMigrations
package import SQL
internal import SQLiteMigrations

/// The tables that the program keeps everything in, for each engine in its own words.
package enum Schema {
  /// How many migrations there are: the number of the last one.
  package static let version = migrations(for: .sqlite).count

  /// All migrations of an engine, in order.
  package static func migrations(for engine: DatabaseEngine) -> [Migration] {
    switch engine {
    case .sqlite: SQLiteMigrations.all
    case .postgreSQL: PostgreSQLMigrations.all
    }
  }

  /// Brings `database` up to date; see ``Migrator/migrate(_:_:now:)``.
  package static func migrate(_ database: any Database) async throws {
    try await Migrator.migrate(database, migrations(for: database.engine))
  }
}
