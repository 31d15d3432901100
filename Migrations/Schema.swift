package import SQL

/// The tables that the program keeps everything in.
///
/// Each `NNNN_name.sql` in this folder is one change of them, compiled into the program; `0001_schema.sql`
/// says what its tokens mean. A new one is a file here, its name in `Package.swift` and one line below. SwiftPM
/// names the constant after the file, the first digit replaced by an underscore.
package enum Schema {
  private static let texts: [(name: String, file: [UInt8])] = [
    ("schema", PackageResources._001_schema_sql)
  ]

  /// How many migrations there are: the number of the last one.
  package static let version = texts.count

  /// All migrations of an engine, in order.
  package static func migrations(for engine: DatabaseEngine) -> [Migration] {
    texts.enumerated().map { index, text in
      Migration(index + 1, text.name, template: String(decoding: text.file, as: UTF8.self), for: engine)
    }
  }

  /// Brings `database` up to date; see ``Migrator/migrate(_:_:now:)``.
  package static func migrate(_ database: any Database) async throws {
    try await Migrator.migrate(database, migrations(for: database.engine))
  }
}
