import Registrations
import SQL

extension Outbox {
  /// An entry on its way into the table.
  struct Insertion: Sendable {
    let statement: Statement
    let registration: Int64
  }
}

extension Connection {
  /// Inserts all, and takes out again, from the end, what registrations have too many of then; nil for those.
  func insert(_ insertions: [Outbox.Insertion], perRegistration limit: Int) throws -> [(
    id: Int64, attempts: Int
  )?] {
    var kept: [(id: Int64, attempts: Int)?] = try insertions.map { insertion in
      guard let row = try query(insertion.statement).first else { throw OutboxRoutes.Stale() }
      return (id: try row.int64(0), attempts: Int(try row.int64(1)))
    }
    let counts = try query(
      Statement(
        """
        SELECT registration_id, COUNT(*) FROM outbox WHERE registration_id IN ($list) GROUP BY registration_id
        """, list: Set(insertions.map(\.registration)).map { .integer($0) }))
    var tooMany: [Int64: Int] = [:]
    for row in counts { tooMany[try row.int64(0)] = Int(try row.int64(1)) - limit }
    guard tooMany.values.contains(where: { $0 > 0 }) else { return kept }
    // What has taken the place of another one did not make it more.
    let replaced = Set(kept.compactMap { $0 }.filter { $0.attempts > 1 }.map(\.id))
    for (index, insertion) in insertions.enumerated().reversed() {
      guard let entry = kept[index], !replaced.contains(entry.id),
        tooMany[insertion.registration, default: 0] > 0
      else { continue }
      try run(Statement("DELETE FROM outbox WHERE id = $1", .integer(entry.id)))
      tooMany[insertion.registration, default: 0] -= 1
      kept[index] = nil
    }
    return kept
  }
}
