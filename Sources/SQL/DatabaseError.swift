/// What went wrong in the database. Its text names tables, columns and constraints, never values.
package struct DatabaseError: Error, Sendable, Hashable, CustomStringConvertible {
  package let code: Code

  /// What the engine said, for people.
  package let message: String

  /// The violated constraint as the engine names it, which tells its table and columns: those
  /// themselves (`table.column, ...`) on SQLite for unique and not-null constraints, else the
  /// constraint's name (`table_column_key`).
  package let constraint: String?

  package init(_ code: Code, _ message: String, constraint: String? = nil) {
    self.code = code
    self.message = message
    self.constraint = constraint
  }

  package var description: String { "\(code): \(message)" }
}

extension DatabaseError {
  /// What the log calls any error: a database's by its code, another by its type. The text of an error could hold a value.
  package static func name(of error: any Error) -> String {
    (error as? DatabaseError).map { "\($0.code)" } ?? "\(type(of: error))"
  }
}

extension DatabaseError {
  static let isClosed = DatabaseError(.closed, "the database is closed")

  /// The kind of a ``DatabaseError``. `description` is a short word out of a small set, fit for a label.
  package enum Code: String, Sendable, Hashable, CustomStringConvertible {
    /// A row with this key exists.
    case uniqueViolation
    /// The row that is referred to does not exist, or is still referred to.
    case foreignKeyViolation
    /// A value is outside what its column allows.
    case checkViolation
    /// A value is missing.
    case notNullViolation
    /// A concurrent transaction got in the way: try again.
    case serializationFailure
    /// Another process kept the database locked for too long.
    case busy
    /// No room left on the disk, or in what the database may use of it.
    case full
    /// The database, or this access to it, can only be read.
    case readOnly
    /// The disk or the file system failed, the file cannot be opened, or memory ran out.
    case io
    /// The file is damaged, or is no database.
    case corrupt
    /// The connection to the server broke: what was under way may or may not have happened.
    case connectionLost
    /// When it is opened: the server is not there, or does not let this user in. The message is libpq's.
    case unreachable
    /// The database has been closed, as in a shutdown.
    case closed
    /// A newer version of this program has migrated the database.
    case newerSchema
    /// A migration that the database has applied is not the one that this program knows.
    case changedMigration
    /// A column is not of the type that was asked for: a mistake in this program.
    case typeMismatch
    /// The arguments do not fit the statement: too many, too few, or text with U+0000.
    case invalidArgument
    /// A database URL that cannot be understood.
    case invalidURL
    /// Anything else: most often a mistake in a statement.
    case other

    package var description: String { rawValue }
  }

  /// Whether the same call may succeed later although nobody changes the program or the data.
  package var isTransient: Bool {
    switch code {
    case .serializationFailure, .busy, .full, .readOnly, .io, .connectionLost, .closed, .unreachable: true
    case .uniqueViolation, .foreignKeyViolation, .checkViolation, .notNullViolation, .corrupt, .newerSchema,
      .changedMigration, .typeMismatch, .invalidArgument, .invalidURL, .other:
      false
    }
  }
}
