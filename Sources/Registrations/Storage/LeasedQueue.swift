package import Foundation
package import SQL

/// A table of work to be done later: rows with a due time (`due_at`) and a number of tries (`attempts`).
///
/// Taking a row moves its due time behind the end of a lease. If the node dies, nothing is lost: another one finds the
/// row due again and takes it over. What is written about a row later names its lease, and changes nothing if another
/// node has taken the row meanwhile.
package struct LeasedQueue: Sendable {
  /// The right to say what becomes of a row, until it ends or another takes the row or its place.
  package struct Lease: Sendable, Hashable {
    /// The row.
    package let id: Int64
    /// How often it was tried, this time included.
    package let attempts: Int
    /// When another may take it over, in milliseconds since 1970, as it is kept.
    package let end: Int64

    /// The lease under which a row was put there.
    package init(id: Int64, attempts: Int, end: Date) {
      self.id = id
      self.attempts = attempts
      self.end = end.milliseconds
    }

    fileprivate var arguments: [Value] { [.integer(id), .integer(Int64(attempts)), .integer(end)] }
  }

  private let table: String
  private let key: String
  private let taking: String
  private let longestPause: TimeInterval
  private let all: String
  private let database: any Database
  private let now: @Sendable () -> Date

  /// The rows of a table.
  ///
  /// - Parameters:
  ///   - key: the integer that tells its rows apart.
  ///   - columns: what is wanted of a row that is taken.
  ///   - condition: what else decides which rows are taken; SQL, with arguments from `$4` on.
  ///   - turns: columns; rows that are equal in them are taken in turn with those that are not.
  ///   - change: what else becomes of one, `column = value`; SQL in the same way.
  ///   - order: in which they are taken.
  ///   - longestPause: none is due further ahead than this, in seconds.
  ///   - all: what holds for every row, where that leads to an index of due times.
  package init(
    _ table: String, key: String = "id", columns: String, where condition: String = "TRUE",
    inTurnsOf turns: String? = nil, changing change: String? = nil, order: String = "due_at",
    longestPause: TimeInterval = 3600,
    all: String = "TRUE", database: any Database, now: @escaping @Sendable () -> Date
  ) {
    self.table = table
    self.key = key
    self.longestPause = longestPause
    self.all = all
    let due = "FROM \(table) WHERE \(condition) AND due_at <= $1 ORDER BY \(order)"
    let chosen =
      if let turns {
        // Out of a few times as many, so that it costs the same however many wait.
        """
        SELECT \(key) FROM (
          SELECT \(key), due_at, ROW_NUMBER() OVER (PARTITION BY \(turns) ORDER BY \(order)) AS turn
          FROM (SELECT \(key), due_at, \(turns) \(due) LIMIT 4 * $3 $skip_locked) AS due) AS turns
        ORDER BY turn, due_at LIMIT $3
        """
      } else {
        "SELECT \(key) \(due) LIMIT $3 $skip_locked"
      }
    taking = """
      UPDATE \(table) SET due_at = $2, attempts = attempts + 1\(change.map { ", \($0)" } ?? "")
      WHERE \(key) IN (\(chosen))
      RETURNING \(key), attempts, \(columns)
      """
    self.database = database
    self.now = now
  }

  /// Takes rows that are due, under a lease that ends after `seconds`.
  package func take(
    limit: Int, for seconds: TimeInterval, _ arguments: Value...
  ) async throws -> [(lease: Lease, row: Row)] {
    let now = now()
    let end = now + seconds
    let times: [Value] = [.integer(now.milliseconds), .integer(end.milliseconds), .integer(Int64(limit))]
    return try await database.execute(Statement(taking, arguments: times + arguments)).map { row in
      let lease = Lease(id: try row.int64(0), attempts: Int(try row.int64(1)), end: end)
      return (lease, Row(values: Array(row.values.dropFirst(2))))
    }
  }

  /// Has rows taken again at this time.
  package func postpone(_ leases: [Lease], until date: Date) async throws {
    guard !leases.isEmpty else { return }
    try await database.write { connection in
      for lease in leases { try connection.run(postponement(of: lease, until: date)) }
    }
  }

  /// Has a row taken again at this time, and changes more of it, `column = value`, with arguments from `$5` on.
  package func postpone(_ lease: Lease, until date: Date, changing change: String, _ arguments: Value...)
    async throws
  {
    _ = try await database.execute(postponement(of: lease, until: date, changing: change, arguments))
  }

  /// The statement that has a row taken again at this time.
  package func postponement(
    of lease: Lease, until date: Date, changing change: String? = nil, _ arguments: [Value] = []
  ) -> Statement {
    Statement(
      "UPDATE \(table) SET due_at = $4\(change.map { ", \($0)" } ?? "") WHERE \(isHeld)",
      arguments: lease.arguments + [.integer(date.milliseconds)] + arguments)
  }

  /// The statement that removes a row.
  package func removal(of lease: Lease) -> Statement {
    Statement("DELETE FROM \(table) WHERE \(isHeld)", arguments: lease.arguments)
  }

  private var isHeld: String { "\(key) = $1 AND attempts = $2 AND due_at = $3" }

  /// Removes rows that are done with, whoever has them by now.
  package func finish(_ leases: [Lease]) async throws {
    guard !leases.isEmpty else { return }
    _ = try await database.execute(
      Statement("DELETE FROM \(table) WHERE \(key) IN ($list)", list: leases.map { .integer($0.id) }))
  }

  /// Nothing is taken for longer.
  package static let longestLease = Duration.seconds(120)

  /// Makes due what is due further ahead than anything is ever put off: a clock that was wrong has done that.
  ///
  /// - Parameter isTimeSetBack: whether this clock was ahead until so long ago that its leases are over: then all goes
  ///   that is due later than a lease ends, for nobody knows by which clock it was put off.
  package func bringForward(isTimeSetBack: Bool = false) async throws {
    let now = now()
    let longest = isTimeSetBack ? Self.longestLease / .seconds(1) : longestPause
    _ = try await database.execute(
      Statement(
        "UPDATE \(table) SET due_at = $1 WHERE \(all) AND due_at > $2", .integer(now.milliseconds),
        .integer((now + longest).milliseconds)))
  }

  /// How many rows there are.
  package func count() async throws -> Int64 {
    let statement = Statement("SELECT COUNT(*) FROM \(table)")
    return try await database.query(statement).first?.int64(0) ?? 0
  }
}

/// Lets one node at a time do what only one need do. A node that has died loses its lease when the time
/// is up.
package struct MaintenanceLease: Sendable {
  private let database: any Database
  private let name: String
  private let node = UUID()
  private let now: @Sendable () -> Date

  /// - Parameter name: of what is done; nodes that share a database share it.
  package init(_ name: String, database: any Database, now: @escaping @Sendable () -> Date) {
    self.name = "lease.\(name)"
    self.database = database
    self.now = now
  }

  /// Whether this node is the one, for so many seconds from now on: because it was, or nobody is. A lease that ends
  /// further ahead than any that is given now was taken by a clock that was wrong.
  package func claim(for seconds: TimeInterval) async throws -> Bool {
    // Eight bytes of time and sixteen of a node: byte strings compare as their times do.
    let now = now()
    let node = withUnsafeBytes(of: node.uuid) { Array($0) }
    let rows = try await database.execute(
      Statement(
        """
        INSERT INTO metadata (name, value) VALUES ($1, $2)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value
        WHERE metadata.value < $3 OR metadata.value > $5 OR substr(metadata.value, 9) = $4
        RETURNING name
        """,
        .text(name), .bytes(Self.bytes(now + seconds) + node), .bytes(Self.bytes(now)), .bytes(node),
        .bytes(Self.bytes(now + seconds + 60))))
    return !rows.isEmpty
  }

  private static func bytes(_ date: Date) -> [UInt8] {
    withUnsafeBytes(of: date.milliseconds.bigEndian) { Array($0) }
  }
}
