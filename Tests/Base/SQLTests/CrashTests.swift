import Foundation
import SQL
import Synchronization
import TestSupport
import Testing

@Suite("Crashes")
struct CrashTests {
  /// Counts acknowledged writes, and notes each in a file before it counts.
  private final class Acknowledgements: Sendable {
    private let file: Int32
    private let count = Mutex(0)

    init(path: String) { file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0o600) }

    /// A line is one write(2), which the kernel keeps when the process is killed.
    func note(_ number: Int64) -> Int {
      let line = Array("\(number)\n".utf8)
      return count.withLock { count in
        _ = write(file, line, line.count)
        count += 1
        return count
      }
    }
  }

  @Test
  func `kill -9 in the middle of many writes loses nothing that was acknowledged`() async throws {
    try await withTemporaryFolder { folder in
      let path = folder.databasePath
      await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String] in
        let database = try await SQLiteDatabase.open(path: path)
        try await database.write { try $0.runScript("CREATE TABLE t (a INTEGER PRIMARY KEY, pair INTEGER)") }
        let acknowledged = Acknowledgements(path: path + ".acknowledged")
        await withThrowingTaskGroup(of: Void.self) { group in
          for task in 0..<Int64(32) {
            group.addTask {
              for turn in 0..<Int64(1000) {
                let number = (task * 1000 + turn) * 2
                try await database.write { connection in
                  try connection.run(
                    Statement("INSERT INTO t VALUES ($1, $2)", .integer(number), .integer(number + 1)))
                  try connection.run(
                    Statement("INSERT INTO t VALUES ($2, $1)", .integer(number), .integer(number + 1)))
                }
                // At this moment the other writes are at any stage.
                if acknowledged.note(number) == 2000 { kill(getpid(), SIGKILL) }
              }
            }
          }
        }
      }
      let text = try String(contentsOfFile: path + ".acknowledged", encoding: .utf8)
      let acknowledged = text.split(separator: "\n").compactMap { Int64($0) }
      #expect(acknowledged.count >= 2000)
      let database = try await SQLiteDatabase.open(path: path)
      #expect(
        try await database.query(Statement("PRAGMA integrity_check"))[0].text("integrity_check") == "ok")
      let kept = Set(try await database.query(Statement("SELECT a FROM t")).map { try $0.int64("a") })
      #expect(kept.isSuperset(of: acknowledged))
      #expect(try await database.integer("SELECT count(*) FROM t WHERE pair NOT IN (SELECT a FROM t)") == 0)
      await database.close()
    }
  }
}
