import Basics

/// An error of the database. Its text names tables, columns and constraints, never values.
package struct DatabaseError: StorageFailure, Sendable, Hashable, CustomStringConvertible {
  package let code: Code

  /// The engine's message.
  package let message: String

  /// The violated constraint: on SQLite, for unique and not-null constraints, the columns (`table.column,
  /// ...`); otherwise the constraint's name (`table_column_key`).
  package let constraint: String?

  package init(_ code: Code, _ message: String, constraint: String? = nil) {
    self.code = code
    self.message = message
    self.constraint = constraint
  }

  package var name: String { "\(code)" }
  package var description: String { "\(code): \(message)" }
}

extension DatabaseError {
  /// The name of any error for the log: a database error's code, or the type of another error, whose text
  /// could contain a value.
  package static func name(of error: any Error) -> String {
    (error as? DatabaseError).map { "\($0.code)" } ?? "\(type(of: error))"
  }
}

extension DatabaseError {
  static let isClosed = DatabaseError(.closed, "the database is closed")

  /// The kind of a ``DatabaseError``; `description` can label a metric.
  package enum Code: String, Sendable, Hashable, CustomStringConvertible {
    /// A row with this key exists.
    case uniqueViolation
    /// The referenced row does not exist, or the row is still referenced.
    case foreignKeyViolation
    /// A value is outside what its column allows.
    case checkViolation
    /// A value is missing.
    case notNullViolation
    /// A concurrent transaction interfered; trying again may succeed.
    case serializationFailure
    /// Another process kept the database locked for too long.
    case busy
    /// The disk is full, or the database has reached its size limit.
    case full
    /// The database, or our access to it, is read-only.
    case readOnly
    /// A file of the database is not at its path any more, or another one is: it was moved, removed or replaced, or its
    /// folder unmounted. The message names it. What was written may be lost.
    case moved
    /// The disk or the file system failed, the file cannot be opened, or memory ran out.
    case io
    /// The file is damaged, or not a database.
    case corrupt
    /// The connection to the server broke, so the work under way may or may not have been done.
    case connectionLost
    /// No connection to the server could be made, for none of the next seven reasons. The message of all eight is libpq's.
    case unreachable
    /// The server refuses the user or its password.
    case loginRefused
    /// The server's `pg_hba.conf` does not admit this machine, user and database.
    case notAdmitted
    /// The server has no such database.
    case databaseMissing
    /// The server has no connection left.
    case tooManyConnections
    /// The server starts or stops.
    case starting
    /// No TLS connection could be made: mostly because of a certificate.
    case tlsFailed
    /// The server's name stands for no address.
    case nameNotResolved
    /// A pooler gives each transaction another session of the server, so that settings and prepared statements
    /// are lost.
    case pooled
    /// The user lacks a right. The message names the object.
    case notPermitted
    /// The database has been closed, as in a shutdown.
    case closed
    /// A newer version of this program has migrated the database.
    case newerSchema
    /// An applied migration differs from the one in this program.
    case changedMigration
    /// A column has another type than the one asked for: a mistake in this program.
    case typeMismatch
    /// The arguments do not fit the statement: too many, too few, or text with U+0000.
    case invalidArgument
    case invalidURL
    /// Anything else, usually a mistake in a statement.
    case other

    package var description: String { rawValue }

    /// Whether no connection to the server could be made.
    package var isOfConnecting: Bool {
      switch self {
      case .unreachable, .loginRefused, .notAdmitted, .databaseMissing, .tooManyConnections, .starting,
        .tlsFailed,
        .nameNotResolved:
        true
      default: false
      }
    }
  }

  /// Whether the same call may succeed later, without a change of the program or the data.
  package var isTransient: Bool {
    switch code {
    case .serializationFailure, .busy, .full, .readOnly, .moved, .io, .connectionLost, .closed, .unreachable,
      .pooled, .notPermitted, .loginRefused, .notAdmitted, .databaseMissing, .tooManyConnections, .starting,
      .tlsFailed, .nameNotResolved:
      true
    case .uniqueViolation, .foreignKeyViolation, .checkViolation, .notNullViolation, .corrupt, .newerSchema,
      .changedMigration, .typeMismatch, .invalidArgument, .invalidURL, .other:
      false
    }
  }
}
