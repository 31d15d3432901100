import SQL

/// A connection whose statements are others than those that were asked for.
struct AlteredConnection: Connection {
  let connection: any Connection
  /// What runs in place of a statement; nil: it changes nothing and finds nothing.
  var alter: (Statement) -> Statement? = { $0 }
  /// What runs after it, with its rows.
  var afterwards: (Statement, [Row], any Connection) throws -> Void = { _, _, _ in }

  func query(_ statement: Statement) throws -> [Row] {
    guard let altered = alter(statement) else { return [] }
    let rows = try connection.query(altered)
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

  /// Has other statements run than those that were asked for; nil: none, and nothing is found.
  mutating func alter(_ alter: @escaping @Sendable (Statement) -> Statement?) {
    connection = { connection, _ in AlteredConnection(connection: connection, alter: alter) }
  }

  /// Has more run after a statement, with its rows.
  mutating func after(
    _ afterwards: @escaping @Sendable (Statement, [Row], any Connection, World) throws -> Void
  ) {
    connection = { connection, world in
      AlteredConnection(connection: connection, afterwards: { try afterwards($0, $1, $2, world) })
    }
  }
}
