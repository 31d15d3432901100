package import Basics

/// The database.
package struct DatabaseSettings: Sendable {
  package init() {}

  @Setting(
    "database.url", "sqlite:push-bouncer.sqlite", .database,
    "the database: sqlite: and a path, or postgres://user:password@host:port/name", secrecy: .password)
  package var url: DatabaseURL
}

extension SettingShape<DatabaseURL> {
  package static var database: SettingShape {
    SettingShape(
      expected: "sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/NAME",
      example: "postgres://push:secret@db.example.org:5432/push?sslmode=verify-full"
    ) { text throws(SettingError) in
      do throws(DatabaseError) { return try DatabaseURL(text) } catch { throw SettingError(error.message) }
    }
  }
}
