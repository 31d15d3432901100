import Foundation
import SQL

/// Measures durable writes a second: single statements, which share commits, against a transaction each.
///
///     URL=$(Scripts/postgresql start /tmp/bench fsync=on)
///     swift run -c release database-bench "$URL" 3; Scripts/postgresql stop /tmp/bench
///
/// An `sqlite:` URL works as well. Every write changes a row, since one that changes nothing needs no disk.
@main
enum DatabaseBench {
  static let upsert = """
    INSERT INTO bench (id, n, text) VALUES ($1, 1, $2) ON CONFLICT (id) DO UPDATE SET n = bench.n + 1
    """
  static let rows: Int64 = 200_000

  static func main() async throws {
    guard CommandLine.arguments.count >= 2 else { throw CocoaError(.fileNoSuchFile) }
    let seconds = CommandLine.arguments.dropFirst(2).first.flatMap(Double.init) ?? 3
    let database = try await openDatabase(url: DatabaseURL(CommandLine.arguments[1]))
    try await database.write { connection in
      try connection.runScript(
        "DROP TABLE IF EXISTS bench; CREATE TABLE bench (id BIGINT PRIMARY KEY, n BIGINT, text TEXT)")
    }
    for tasks in [1, 64, 512] {
      let single = try await rate(tasks, seconds) { _ = try await database.execute(statement()) }
      let transaction = try await rate(tasks, seconds) {
        _ = try await database.write { try $0.run(statement()) }
      }
      let read = try await rate(tasks, seconds) {
        _ = try await database.read {
          try $0.query(Statement("SELECT n FROM bench WHERE id = $1", .integer(.random(in: 0..<rows))))
        }
      }
      print("\(tasks) tasks, a second: \(single) statements, \(transaction) transactions, \(read) reads")
    }
    await database.close()
  }

  @Sendable static func statement() -> Statement {
    Statement(upsert, .integer(.random(in: 0..<rows)), .text("a row of about the length that rows have here"))
  }

  /// How often a second `tasks` tasks together get `work` done.
  static func rate(
    _ tasks: Int, _ seconds: Double, _ work: @escaping @Sendable () async throws -> Void
  ) async throws -> Int {
    let end = ContinuousClock.now + .seconds(seconds)
    let count = try await withThrowingTaskGroup(of: Int.self) { group in
      for _ in 0..<tasks {
        group.addTask {
          var count = 0
          while ContinuousClock.now < end {
            try await work()
            count += 1
          }
          return count
        }
      }
      return try await group.reduce(0, +)
    }
    return Int(Double(count) / seconds)
  }
}
