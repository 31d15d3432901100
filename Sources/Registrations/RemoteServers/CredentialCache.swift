internal import Foundation
internal import SQL
internal import Synchronization

/// Rows of servers as they were read a moment ago, so that a busy server does not cost a query for
/// each of its calls.
///
/// It only ever shortens the way to a yes: what would be refused is looked up again first. What
/// another process changes is noticed when a row is older than ``lifetime``.
final class CredentialCache: Sendable {
  /// How long a row is believed.
  static let lifetime = Duration.milliseconds(200)
  private static let maximumRows = 10_000

  private struct Entry {
    let row: Row
    let readAt: ContinuousClock.Instant
  }

  private let entries = Mutex<[UUID: Entry]>([:])

  func row(_ uuid: UUID) -> Row? {
    entries.withLock { entries in
      guard let entry = entries[uuid], ContinuousClock.now - entry.readAt < Self.lifetime else { return nil }
      return entry.row
    }
  }

  func keep(_ row: Row, for uuid: UUID, readAt: ContinuousClock.Instant) {
    entries.withLock { entries in
      if entries.count >= Self.maximumRows { entries.removeAll() }
      entries[uuid] = Entry(row: row, readAt: readAt)
    }
  }

  func clear() {
    entries.withLock { $0.removeAll() }
  }
}
