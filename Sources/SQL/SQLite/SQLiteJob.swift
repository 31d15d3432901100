/// What one caller wants done on a connection.
struct SQLiteJob: QueuedJob {
  enum Work: Sendable {
    /// One statement, whose rows are kept.
    case statement(Statement, Kept<[Row]>)
    /// Any number of them.
    case body(@Sendable (any Connection) throws -> Void)
  }

  let caller: Caller
  let work: Work

  /// A job waits for its turn, which is never far.
  var deadline: ContinuousClock.Instant? { nil }

  /// Does it in a transaction or a snapshot.
  func run(on connection: SQLiteConnection) throws {
    switch work {
    case .statement(let statement, let rows): rows.value = try connection.query(statement)
    case .body(let body): try body(connection)
    }
  }

  /// Does it so that what it throws undoes what it wrote, and nothing else. SQLite itself undoes a statement that
  /// fails.
  func runUndoably(on connection: SQLiteConnection) throws {
    switch work {
    case .statement: try run(on: connection)
    case .body: try connection.savepoint { try run(on: connection) }
    }
  }
}
