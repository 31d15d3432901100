package import SQL

/// The database schema, as numbered migrations.
///
/// Each `NNNN_name.sql` in this folder is one migration, compiled into the program; the head of
/// `0001_schema.sql` explains the placeholders that differ between engines. To add a migration, add its file
/// here, its name in `Package.swift` and one line below. SwiftPM names the constant after the file and
/// replaces the first digit by an underscore. CONTRIBUTING says what a migration may do while older programs serve, and
/// which of them `oldest` therefore names.
package enum Schema {
  private static let texts: [(name: String, oldest: Int, file: [UInt8])] = [
    ("schema", oldest: 1, PackageResources._001_schema_sql),
    ("gateway_bodies", oldest: 1, PackageResources._002_gateway_bodies_sql),
  ]

  /// The number of the last migration.
  package static let version = texts.count

  /// All migrations in order, with the SQL of `engine`.
  package static func migrations(for engine: DatabaseEngine) -> [Migration] {
    texts.enumerated().map { index, text in
      Migration(
        index + 1, text.name, oldest: text.oldest, template: String(decoding: text.file, as: UTF8.self),
        for: engine)
    }
  }

  /// The names of all tables that the migrations make. Other programs may have tables in the same database.
  package static let tables: Set<String> = Set(
    migrations(for: .sqlite).flatMap { migration in
      migration.sql.split(separator: "\n").compactMap { line in
        line.hasPrefix("CREATE TABLE ") ? line.split(separator: " ").dropFirst(2).first.map(String.init) : nil
      }
    })

  /// Applies to `database`, which nobody else uses, the migrations that it lacks; see
  /// ``Migrator/migrate(_:_:now:permit:)``.
  package static func migrate(_ database: any Database) async throws {
    try await Migrator.migrate(database, migrations(for: database.engine))
  }
}
