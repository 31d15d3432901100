import Basics
import Foundation
import Platform
import Providers
import SQL
import Synchronization

/// Checks whether the database answers and can be written.
final class DatabaseCheck: Sendable {
  enum Failure: Sendable, Hashable {
    /// The database did not answer in time.
    case timeout
    case error(DatabaseError)

    init(_ error: any Error) {
      self = .error(error as? DatabaseError ?? DatabaseError(.other, DatabaseError.name(of: error)))
    }

    var reason: String {
      switch self {
      case .timeout: "timeout"
      case .error(let error): error.code.description
      }
    }

    /// Whether a file of the database is gone: reads work, and what is written would be lost.
    var isOfFiles: Bool { if case .error(let error) = self { error.code == .moved } else { false } }

    /// What fails, in a few words.
    var summary: String {
      guard case .error(let error) = self else { return "the database does not answer" }
      return switch error.code {
      case .moved: "the database's file is gone: nothing is accepted"
      case .full, .readOnly, .io, .busy: "the database takes no writes"
      case let code where code.isOfConnecting: "no connection to the database can be opened"
      case .closed, .connectionLost: "the database does not answer"
      default: "the database cannot be used"
      }
    }
  }

  private let database: any Database
  private let now: @Sendable () -> Date
  private let reading: Probe<Failure?>
  /// Reads and writes.
  private let writing: Probe<Failure?>
  private let since = Mutex<Date?>(nil)
  /// How long the database may take to answer before it counts as down.
  private static let timeout = Duration.milliseconds(800)
  /// The shortest time between two test writes.
  private static let interval = Duration.seconds(2)

  init(_ database: any Database, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.now = now
    let lastWrite = Mutex<(at: ContinuousClock.Instant, failure: Failure?)?>(nil)
    reading = Probe { await Self.readFailure(database) }
    writing = Probe {
      if let failure = await Self.readFailure(database) { return failure }
      let start = ContinuousClock.now
      if let last = lastWrite.withLock({ $0 }), start - last.at < Self.interval,
        last.failure != nil || database.trouble == nil
      {
        return last.failure
      }
      let failure = await Self.writeFailure(database)
      lastWrite.withLock { $0 = (start, failure) }
      return failure
    }
  }

  /// What is wrong with the database and since when; nil if it works. Takes less than a second.
  func finding() async -> (failure: Failure, since: Date)? {
    let trouble = database.trouble
    let failure = await writing.answer(within: Self.timeout) ?? silence
    // Calls may have failed long before anybody asks here.
    let elapsed = (trouble ?? database.trouble).map { (ContinuousClock.now - $0.since) / .seconds(1) } ?? 0
    let now = now()
    return since.withLock { since in
      guard let failure else {
        since = nil
        return nil
      }
      let start = since ?? now.addingTimeInterval(-elapsed)
      since = start
      return (failure, start)
    }
  }

  /// What is wrong with reading; nil if it works. Takes less than a second.
  func readFailure() async -> Failure? {
    await reading.answer(within: Self.timeout) ?? silence
  }

  /// Whether calls have failed, and none has succeeded since.
  var isSuspect: Bool { database.trouble != nil }

  /// Why no answer comes, as far as the database's connections know.
  private var silence: Failure { database.trouble.map { .error($0.error) } ?? .timeout }

  /// What a failure means, and what to do.
  func explanation(of failure: Failure) -> Explanation {
    if failure.isOfFiles { return Self.movedFiles }
    let more = "push-bouncer doctor says more."
    guard case .error(let error) = failure else {
      return Explanation(
        "The database does not answer in time, and does not say why.",
        database.engine == .postgreSQL
          ? "See that PostgreSQL runs and can be reached (database.url); \(more)"
          : "See that the disk with the database (database.url) works; \(more)")
    }
    let (problem, advice) = error.words(isFile: database.engine == .sqlite)
    return Explanation(
      "The database (database.url) cannot be used: \(problem).",
      "\(advice.prefix(1).uppercased())\(advice.dropFirst()); \(more)")
  }

  private static let movedFiles = Explanation(
    """
    The file of the database (database.url), or the -wal or -shm beside it, was moved, removed or replaced while the \
    service has it open. What is written now would be lost, so nothing is accepted.
    """,
    """
    Move the same files back, and the service goes on. If only -wal or -shm is gone, restart the service in order \
    (SIGTERM): it then writes all it has into the database. If the database was removed, save it before the service \
    ends: Documentation/Troubleshooting.md, "The database's file is gone". Stop the service before you put another \
    database there.
    """)

  private static func readFailure(_ database: any Database) async -> Failure? {
    await failure {
      try database.checkFiles()
      _ = try await database.query(Statement("SELECT 1"))
    }
  }

  /// Tests a write. A full disk, for example, allows reads only, and then no notification can be accepted.
  private static func writeFailure(_ database: any Database) async -> Failure? {
    // The value has to differ each time: SQLite does not write a value that is already stored.
    let time = withUnsafeBytes(of: Date().timeIntervalSince1970.bitPattern.bigEndian) { Array($0) }
    let statement = Statement(
      """
      INSERT INTO metadata (name, value) VALUES ('write_check', $1)
      ON CONFLICT (name) DO UPDATE SET value = excluded.value
      """, .bytes(time))
    return await failure { _ = try await database.execute(statement) }
  }

  private static func failure(_ body: () async throws -> Void) async -> Failure? {
    do { try await body() } catch { return Failure(error) }
    return nil
  }
}
