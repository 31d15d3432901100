package import Foundation

/// A table used as a queue of delayed work, with a due time (`due_at`) and a number of tries (`attempts`) for
/// each row.
///
/// Taking a row moves its due time to the end of a lease. If the node dies, nothing is lost: another one
/// finds the row due again and takes it over. Later changes to a row name its lease, and have no effect if
/// another node has taken the row meanwhile.
package struct LeasedQueue: Sendable {
  /// The right to change a row, until it expires or another node takes or replaces the row.
  package struct Lease: Sendable, Hashable {
    package let id: Int64
    /// Number of tries, this one included.
    package let attempts: Int
    /// When another node may take it over, in milliseconds since 1970, as stored.
    package let end: Int64

    /// The lease of a row that was inserted with one.
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
  /// Takes the first row of each of several groups. It has no temporary tables: for one row it costs half as much.
  private let takingFirsts: String?
  private let longestPause: TimeInterval
  private let all: String
  private let database: any Database
  private let now: @Sendable () -> Date

  /// - Parameters:
  ///   - key: an integer column that identifies rows.
  ///   - columns: the columns to return for a taken row, besides its key and `attempts`.
  ///   - condition: further SQL condition for rows to take, with arguments from `$4` on.
  ///   - turns: columns; rows with different values in them are taken in turn.
  ///   - share: how many rows with the same values are taken at once.
  ///   - groups: `FROM` and `WHERE` of the rows of another table that each stand for a group of this one's, with the same
  ///     arguments and `$list`; and the condition of such a row for this table's. For ``takeFirsts(of:for:_:)``.
  ///   - change: further assignment for taken rows, `column = value`, with the same arguments.
  ///   - order: SQL order in which rows are taken.
  ///   - longestPause: furthest due time ahead of now, in seconds.
  ///   - all: condition that holds for every row, if that lets an index of due times be used.
  package init(
    _ table: String, key: String = "id", columns: String? = nil, where condition: String = "TRUE",
    inTurnsOf turns: String? = nil, share: Int? = nil,
    firstsOf groups: (rows: String, condition: String)? = nil, changing change: String? = nil,
    order: String = "due_at",
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
        // Chosen from a few times as many rows, so that the cost does not depend on the queue's length.
        """
        SELECT \(key) FROM (
          SELECT \(key), due_at, ROW_NUMBER() OVER (PARTITION BY \(turns) ORDER BY \(order)) AS turn
          FROM (SELECT \(key), due_at, \(turns) \(due) LIMIT 4 * $3 $skip_locked) AS due) AS turns
        \(share.map { "WHERE turn <= \($0)" } ?? "") ORDER BY turn, due_at LIMIT $3
        """
      } else {
        "SELECT \(key) \(due) LIMIT $3 $skip_locked"
      }
    let update = "UPDATE \(table) SET due_at = $2, attempts = attempts + 1\(change.map { ", \($0)" } ?? "")"
    let returning = "RETURNING \(key), attempts\(columns.map { ", \($0)" } ?? "")"
    taking = "\(update) WHERE \(key) IN (\(chosen)) \(returning)"
    takingFirsts = groups.map { groups in
      """
      \(update) WHERE \(key) IN (
        SELECT (
          SELECT \(key) FROM \(table) WHERE \(groups.condition) AND due_at <= $1 ORDER BY \(order) LIMIT $3 $skip_locked)
        \(groups.rows))
      \(returning)
      """
    }
    self.database = database
    self.now = now
  }

  /// Takes due rows, under a lease that ends after `seconds`.
  package func take(
    limit: Int, for seconds: TimeInterval, _ arguments: Value...
  ) async throws -> [(lease: Lease, row: Row)] {
    try await take(limit: limit, for: seconds, arguments: arguments)
  }

  package func take(
    limit: Int, for seconds: TimeInterval, arguments: [Value]
  ) async throws -> [(lease: Lease, row: Row)] {
    try await take(limit, for: seconds) { Statement(taking, arguments: $0 + arguments) }
  }

  /// Takes the first due row of each of these groups.
  package func takeFirsts(
    of groups: [Value], for seconds: TimeInterval, _ arguments: [Value]
  ) async throws -> [(lease: Lease, row: Row)] {
    guard let takingFirsts else { preconditionFailure("\(table) has no groups") }
    return try await take(1, for: seconds) { Statement(takingFirsts, $0 + arguments, list: groups) }
  }

  /// - Parameter statement: what takes the rows; its first arguments are now, the end of the lease, and the limit.
  private func take(
    _ limit: Int, for seconds: TimeInterval, by statement: ([Value]) -> Statement
  ) async throws -> [(lease: Lease, row: Row)] {
    let now = now()
    let end = now + seconds
    let times: [Value] = [.integer(now.milliseconds), .integer(end.milliseconds), .integer(Int64(limit))]
    return try await database.execute(statement(times)).map { row in
      let lease = Lease(id: try row.int64(key), attempts: Int(try row.int64("attempts")), end: end)
      return (lease, row)
    }
  }

  /// Postpones rows to this time.
  package func postpone(_ leases: [Lease], until date: Date) async throws {
    guard !leases.isEmpty else { return }
    try await database.write { connection in
      for lease in leases { try connection.run(postponement(of: lease, until: date)) }
    }
  }

  /// Postpones a row to this time, and makes a further assignment, `column = value`, with arguments from `$5`
  /// on.
  package func postpone(_ lease: Lease, until date: Date, changing change: String, _ arguments: Value...)
    async throws
  {
    _ = try await database.execute(postponement(of: lease, until: date, changing: change, arguments))
  }

  /// The statement that postpones a row to this time.
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

  /// Removes completed rows, whoever holds their lease.
  package func finish(_ leases: [Lease]) async throws {
    guard !leases.isEmpty else { return }
    try await database.execute(
      "DELETE FROM \(table) WHERE \(key) IN ($list)", list: leases.map { .integer($0.id) })
  }

  /// Upper bound of leases.
  package static let longestLease = Duration.seconds(120)

  /// Makes rows due whose due time is further ahead than any postponement: a wrong clock has set it.
  ///
  /// - Parameter isTimeSetBack: true if this clock was ahead, and for so long ago that its leases are over.
  ///   All rows due later than a lease could end then become due, because it is unknown which clock postponed
  ///   them.
  package func bringForward(isTimeSetBack: Bool = false) async throws {
    let now = now()
    let longest = isTimeSetBack ? Self.longestLease / .seconds(1) : longestPause
    try await database.execute(
      "UPDATE \(table) SET due_at = $1 WHERE \(all) AND due_at > $2", .integer(now.milliseconds),
      .integer((now + longest).milliseconds))
  }

  package func count() async throws -> Int64 {
    try await database.query("SELECT COUNT(*) AS count FROM \(table)").first?.int64("count") ?? 0
  }
}

/// Elects one node at a time for maintenance work. The lease of a node that has died expires.
package struct MaintenanceLease: Sendable {
  private let database: any Database
  private let name: String
  private let node = UUID()
  private let now: @Sendable () -> Date

  /// - Parameter name: name of the work, shared by all nodes on the database.
  package init(_ name: String, database: any Database, now: @escaping @Sendable () -> Date) {
    self.name = "lease.\(name)"
    self.database = database
    self.now = now
  }

  /// Claims the lease for this many seconds; returns whether this node has it. It succeeds if the node has it
  /// already, or nobody has. A lease that ends later than any could that is given now was taken by a wrong
  /// clock, and is void.
  package func claim(for seconds: TimeInterval) async throws -> Bool {
    // The value is 8 bytes of time and 16 of a node's UUID, so values compare like their times.
    let now = now()
    let node = withUnsafeBytes(of: node.uuid) { Array($0) }
    let rows = try await database.execute(
      """
      INSERT INTO metadata (name, value) VALUES ($1, $2)
      ON CONFLICT (name) DO UPDATE SET value = excluded.value
      WHERE metadata.value < $3 OR metadata.value > $5 OR substr(metadata.value, 9) = $4
      RETURNING name
      """,
      .text(name), .bytes(Self.bytes(now + seconds) + node), .bytes(Self.bytes(now)), .bytes(node),
      .bytes(Self.bytes(now + seconds + 60)))
    return !rows.isEmpty
  }

  private static func bytes(_ date: Date) -> [UInt8] {
    withUnsafeBytes(of: date.milliseconds.bigEndian) { Array($0) }
  }
}
