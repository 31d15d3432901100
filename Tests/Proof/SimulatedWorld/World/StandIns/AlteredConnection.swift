import SQL

/// A connection that replaces statements by others.
struct AlteredConnection: Connection {
  let connection: any Connection
  /// Returns the statement to run instead; nil: none runs, and the result is empty.
  var alter: (Statement) -> Statement? = { $0 }
  /// Changes what a query gives.
  var read: (Statement, [Row]) -> [Row] = { $1 }
  /// Runs after each statement, with its rows.
  var afterwards: (Statement, [Row], any Connection) throws -> Void = { _, _, _ in }

  func query(_ statement: Statement) throws -> [Row] {
    guard let altered = alter(statement) else { return [] }
    let rows = read(statement, try connection.query(altered))
    try afterwards(statement, rows, connection)
    return rows
  }

  func run(_ statement: Statement) throws -> Int {
    guard let altered = alter(statement) else { return 1 }
    let count = try connection.run(altered)
    try afterwards(statement, [], connection)
    return count
  }

  func runScript(_ sql: String) throws { try connection.runScript(sql) }
  func lockSchema() throws { try connection.lockSchema() }
}

extension StandIn {
  /// One that writes parts of the statements anew.
  init(
    _ name: String, replacing old: String, by new: String,
    where isMeant: @escaping @Sendable (String) -> Bool = { _ in true }
  ) {
    self.init(name) { standIn in
      standIn.alter { statement in
        guard statement.sql.contains(old), isMeant(statement.sql) else { return statement }
        return Statement(statement.sql.replacing(old, with: new), arguments: statement.arguments)
      }
    }
  }

  /// Replaces statements; nil: none runs, and the result is empty.
  mutating func alter(_ alter: @escaping @Sendable (Statement) -> Statement?) {
    connection = { connection, _ in AlteredConnection(connection: connection, alter: alter) }
  }

  /// Adds work after each statement, with its rows.
  mutating func after(
    _ afterwards: @escaping @Sendable (Statement, [Row], any Connection, World) throws -> Void
  ) {
    connection = { connection, world in
      AlteredConnection(connection: connection, afterwards: { try afterwards($0, $1, $2, world) })
    }
  }
}
