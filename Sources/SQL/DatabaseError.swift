/// What went wrong in the database. Its text names tables, columns and constraints, never values.
package struct DatabaseError: Error, Sendable, Hashable, CustomStringConvertible {
  /// What kind of failure it is.
  package let code: Code

  /// What the engine said, for people.
  package let message: String

  /// The violated constraint as the engine names it, which tells its table and columns: those
  /// themselves (`table.column, ...`) on SQLite for unique and not-null constraints, else the
  /// constraint's name (`table_column_key`).
  package let constraint: String?

  /// An error of the given kind.
  package init(_ code: Code, _ message: String, constraint: String? = nil) {
    self.code = code
    self.message = message
    self.constraint = constraint
  }

  /// Whether the same call may succeed later although nobody changes the program or the data.
  package var isTransient: Bool { code.isTransient }

  /// The code and the message.
  package var description: String { "\(code): \(message)" }
}

extension DatabaseError {
  /// What the log calls any error: a database's by its code, another by its type. The text of an error could hold a value.
  package static func name(of error: any Error) -> String {
    (error as? DatabaseError).map { "\($0.code)" } ?? "\(type(of: error))"
  }
}

extension DatabaseError {
  /// The kind of a ``DatabaseError``. There may be more of them in time; `description` is a
  /// short word out of a small set, fit for a label.
  package struct Code: Sendable, Hashable, CustomStringConvertible {
    private enum Base: String {
      case uniqueViolation, foreignKeyViolation, checkViolation, notNullViolation
      case serializationFailure, busy, full, readOnly, io, corrupt, connectionLost, closed
      case unreachable
      case newerSchema, changedMigration
      case typeMismatch, invalidArgument, invalidURL, other
    }

    private let base: Base

    private init(_ base: Base) { self.base = base }

    /// A row with this key exists.
    package static let uniqueViolation = Code(.uniqueViolation)
    /// The row that is referred to does not exist, or is still referred to.
    package static let foreignKeyViolation = Code(.foreignKeyViolation)
    /// A value is outside what its column allows.
    package static let checkViolation = Code(.checkViolation)
    /// A value is missing.
    package static let notNullViolation = Code(.notNullViolation)
    /// A concurrent transaction got in the way: try again.
    package static let serializationFailure = Code(.serializationFailure)
    /// Another process kept the database locked for too long.
    package static let busy = Code(.busy)
    /// No room left on the disk, or in what the database may use of it.
    package static let full = Code(.full)
    /// The database, or this access to it, can only be read.
    package static let readOnly = Code(.readOnly)
    /// The disk or the file system failed, the file cannot be opened, or memory ran out.
    package static let io = Code(.io)
    /// The file is damaged, or is no database.
    package static let corrupt = Code(.corrupt)
    /// The connection to the server broke: what was under way may or may not have happened.
    package static let connectionLost = Code(.connectionLost)
    /// When it is opened: there is no server, or it does not let this user in.
    package static let unreachable = Code(.unreachable)
    /// The database has been closed, as in a shutdown.
    package static let closed = Code(.closed)
    /// A newer version of this program has migrated the database.
    package static let newerSchema = Code(.newerSchema)
    /// A migration that the database has applied is not the one that this program knows.
    package static let changedMigration = Code(.changedMigration)
    /// A column is not of the type that was asked for: a mistake in this program.
    package static let typeMismatch = Code(.typeMismatch)
    /// The arguments do not fit the statement: too many, too few, or text with U+0000.
    package static let invalidArgument = Code(.invalidArgument)
    /// A database URL that cannot be understood.
    package static let invalidURL = Code(.invalidURL)
    /// Anything else: most often a mistake in a statement.
    package static let other = Code(.other)

    /// Whether it says why a database could not be opened, and so which one it is about.
    package var isOfOpening: Bool {
      self == .unreachable
    }

    /// The code as a word.
    package var description: String { base.rawValue }

    fileprivate var isTransient: Bool {
      switch base {
      case .serializationFailure, .busy, .full, .readOnly, .io, .connectionLost, .closed,
        .unreachable:
        true
      case .uniqueViolation, .foreignKeyViolation, .checkViolation, .notNullViolation, .corrupt,
        .newerSchema, .changedMigration, .typeMismatch, .invalidArgument, .invalidURL, .other:
        false
      }
    }
  }
}
