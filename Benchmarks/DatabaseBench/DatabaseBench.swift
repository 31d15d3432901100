import Foundation
import SQL

/// Measures what a call of the database costs: how many a second, and how much CPU time each, of single statements,
/// which share commits, of transactions and of reads, from one caller, from several and from many.
///
///     URL=$(Scripts/proof/postgresql start /tmp/bench fsync=on)
///     swift run -c release database-bench "$URL" 3; Scripts/proof/postgresql stop /tmp/bench
///
/// An `sqlite:` URL works as well. Every write changes a row, since one that changes nothing needs no disk. Calls
/// are made as those of a request are, with a deadline each.
@main
enum DatabaseBench {
  static let upsert = """
    INSERT INTO bench (id, n, text) VALUES ($1, 1, $2) ON CONFLICT (id) DO UPDATE SET n = bench.n + 1
    """
  static let rows: Int64 = 10_000

  static func main() async throws {
    guard CommandLine.arguments.count >= 2 else { throw CocoaError(.fileNoSuchFile) }
    let seconds = CommandLine.arguments.dropFirst(2).first.flatMap(Double.init) ?? 3
    let opened = try await openDatabase(url: DatabaseURL(CommandLine.arguments[1]))
    let database = RetryingDatabase(opened)
    try await database.write { connection in
      try connection.runScript(
        "DROP TABLE IF EXISTS bench; CREATE TABLE bench (id BIGINT PRIMARY KEY, n BIGINT, text TEXT)")
      for id in 0..<rows { try connection.run(statement(id)) }
    }
    print("callers  read: a second, µs each   single statement   transaction")
    try await DatabaseWait.limit(eachCallTo: .seconds(12)) { @Sendable in
      for callers in [1, 8, 64] {
        let read = try await measure(callers, seconds) {
          _ = try await database.read {
            try $0.query(
              Statement("SELECT n, text FROM bench WHERE id = $1", .integer(.random(in: 0..<rows))))
          }
        }
        let single = try await measure(callers, seconds) { _ = try await database.execute(statement()) }
        let transaction = try await measure(callers, seconds) {
          _ = try await database.write { try $0.run(statement()) }
        }
        print(callers, read, single, transaction, separator: "\t")
      }
    }
    await database.close()
  }

  @Sendable static func statement(_ id: Int64 = .random(in: 0..<rows)) -> Statement {
    Statement(upsert, .integer(id), .text("a row of about the length that rows have here"))
  }

  /// How often a second `callers` together get `work` done, and for how much CPU time each time.
  static func measure(
    _ callers: Int, _ seconds: Double, _ work: @escaping @Sendable () async throws -> Void
  ) async throws -> String {
    let before = cpuTime()
    let end = ContinuousClock.now + .seconds(seconds)
    let count = try await withThrowingTaskGroup(of: Int.self) { group in
      for _ in 0..<callers {
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
    let rate = String(format: "%7.0f", Double(count) / seconds)
    return rate + String(format: "%7.1f", (cpuTime() - before) / Double(count) * 1e6)
  }

  /// The process's CPU time so far, in seconds.
  static func cpuTime() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }
}
