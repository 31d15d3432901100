internal import Foundation
internal import Platform
internal import Providers
internal import SQL
internal import Settings
internal import Synchronization

/// Checks whether the database answers and can be written.
final class DatabaseCheck: Sendable {
  enum Failure: Sendable, Hashable {
    /// The database did not answer in time.
    case timeout
    case error(DatabaseError.Code)

    init(_ error: any Error) { self = .error((error as? DatabaseError)?.code ?? .other) }

    var reason: String {
      switch self {
      case .timeout: "timeout"
      case .error(let code): code.description
      }
    }

    /// Whether reading may still work and only writing fails.
    var isOfWriting: Bool { isOne(of: [.full, .readOnly, .io, .busy]) }

    /// Whether the database does not answer at all, rather than refuse a write.
    var isSilence: Bool {
      self == .timeout || isOne(of: [.closed, .connectionLost, .unreachable, .busy])
    }

    private func isOne(of codes: [DatabaseError.Code]) -> Bool {
      if case .error(let code) = self { codes.contains(code) } else { false }
    }
  }

  private let engine: DatabaseEngine
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
    engine = database.engine
    self.now = now
    let lastWrite = Mutex<(at: ContinuousClock.Instant, failure: Failure?)?>(nil)
    reading = Probe { await Self.readFailure(database) }
    writing = Probe {
      if let failure = await Self.readFailure(database) { return failure }
      let start = ContinuousClock.now
      if let last = lastWrite.withLock({ $0 }), start - last.at < Self.interval { return last.failure }
      let failure = await Self.writeFailure(database)
      lastWrite.withLock { $0 = (start, failure) }
      return failure
    }
  }

  /// What is wrong with the database and since when; nil if it works. Takes less than a second.
  func finding() async -> (failure: Failure, since: Date)? {
    let failure = await writing.answer(within: Self.timeout) ?? .timeout
    let now = now()
    let since = since.withLock { since -> Date in
      defer { if failure == nil { since = nil } }
      since = since ?? now
      return since ?? now
    }
    return failure.map { ($0, since) }
  }

  /// What is wrong with reading; nil if it works. Takes less than a second.
  func readFailure() async -> Failure? {
    await reading.answer(within: Self.timeout) ?? .timeout
  }

  /// What a failure means, and what to do.
  func explanation(of failure: Failure) -> Explanation {
    Explanation(
      Self.meaning(of: failure),
      engine == .postgreSQL
        ? "See that PostgreSQL runs and can be reached (database.url); push-bouncer doctor says more."
        : "See that the disk with the database (database.url) works and has room; push-bouncer doctor says more."
    )
  }

  private static func meaning(of failure: Failure) -> String {
    guard case .error(let code) = failure else { return "The database does not answer in time." }
    return switch code {
    case .full: "The database has no room left on its disk."
    case .readOnly: "The database can be read and not written."
    case .busy: "Another process keeps the database locked."
    case .io: "The disk or the file system of the database fails."
    case .corrupt: "The database is damaged."
    case .closed: "The database was closed."
    case .connectionLost: "The connection to the database is lost."
    case .pooled:
      "A pooler gives each transaction another session of the database's server: it must pool sessions."
    case .notPermitted: "The database's user lacks a right."
    case .unreachable: "No connection to the database can be opened."
    default: "The database refuses what the service asks."
    }
  }

  private static func readFailure(_ database: any Database) async -> Failure? {
    await failure { _ = try await database.query(Statement("SELECT 1")) }
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
