internal import Foundation
internal import SQL
internal import Synchronization

/// Whether the database answers and takes what is written.
final class DatabaseCheck: Sendable {
  /// What is wrong, in a word; nil: nothing.
  private let probe: Probe<String?>
  /// A database that says nothing for so long is none: whoever asks wants an answer.
  private static let patience = Duration.milliseconds(800)
  /// Whoever asks often must not cost a commit each time.
  private static let writeInterval = Duration.seconds(2)

  init(_ database: any Database) {
    let lastWrite = Mutex<(at: ContinuousClock.Instant, failure: DatabaseError.Code?)?>(nil)
    probe = Probe {
      do {
        _ = try await database.query(Statement("SELECT 1"))
      } catch {
        return ((error as? DatabaseError)?.code ?? .other).description
      }
      let start = ContinuousClock.now
      if let last = lastWrite.withLock({ $0 }), start - last.at < Self.writeInterval {
        return last.failure?.description
      }
      let failure = await Self.writeFailure(database)
      lastWrite.withLock { $0 = (start, failure) }
      return failure?.description
    }
  }

  /// What is wrong with the database, if anything, told within a second.
  func failure() async -> String? {
    await probe.answer(within: Self.patience) ?? "timeout"
  }

  /// Why nothing can be written, as on a full disk: reads go on there, but nothing can be promised.
  private static func writeFailure(_ database: any Database) async -> DatabaseError.Code? {
    do {
      // A value that changes: SQLite writes nothing where the same stands already.
      let time = withUnsafeBytes(of: Date().timeIntervalSince1970.bitPattern.bigEndian) { Array($0) }
      _ = try await database.execute(
        Statement(
          """
          INSERT INTO metadata (name, value) VALUES ('write_check', $1)
          ON CONFLICT (name) DO UPDATE SET value = excluded.value
          """, .bytes(time)))
      return nil
    } catch {
      return (error as? DatabaseError)?.code ?? .other
    }
  }
}
