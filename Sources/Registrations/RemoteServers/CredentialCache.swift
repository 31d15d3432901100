internal import Foundation
internal import SQL
internal import Synchronization

/// Rows of servers as they were read a moment ago, and who was right by them, so that a busy server costs neither a
/// query nor a look at its key for each of its calls.
///
/// It only ever shortens the way to a yes: what would be refused is looked up again first. What
/// another process changes is noticed when a row is older than ``lifetime``.
final class CredentialCache: Sendable {
  /// How long a row is believed.
  static let lifetime = Duration.milliseconds(200)
  private static let maximumRows = 10_000

  /// A row, and when it was read.
  struct Entry {
    let row: Row
    let readAt: ContinuousClock.Instant
  }

  private struct State {
    var rows: [UUID: Entry] = [:]
    var right: [RemoteServers.Credentials: (server: RemoteServer, readAt: ContinuousClock.Instant)] = [:]
  }

  private let state = Mutex(State())

  func entry(_ uuid: UUID) -> Entry? {
    state.withLock { state in state.rows[uuid].flatMap { Self.isBelieved($0.readAt) ? $0 : nil } }
  }

  func keep(_ entry: Entry, for uuid: UUID) {
    state.withLock { state in
      if state.rows.count >= Self.maximumRows { state.rows.removeAll() }
      state.rows[uuid] = entry
    }
  }

  /// The server whose credentials these were, by a row that is still believed.
  func server(_ credentials: RemoteServers.Credentials) -> RemoteServer? {
    state.withLock { state in
      state.right[credentials].flatMap { Self.isBelieved($0.readAt) ? $0.server : nil }
    }
  }

  /// Credentials were right by a row that was read then.
  func keep(
    _ credentials: RemoteServers.Credentials, of server: RemoteServer, readAt: ContinuousClock.Instant
  ) {
    state.withLock { state in
      if state.right.count >= Self.maximumRows { state.right.removeAll() }
      state.right[credentials] = (server, readAt)
    }
  }

  func clear() {
    state.withLock { $0 = State() }
  }

  private static func isBelieved(_ readAt: ContinuousClock.Instant) -> Bool {
    ContinuousClock.now - readAt < lifetime
  }
}

extension RemoteServers {
  /// What somebody shows, to be known again while it is believed: 128 bits of a hash with this process's own seed, so
  /// that no secret is kept and nobody can choose two that are the same.
  package struct Credentials: Sendable, Hashable {
    private let first, second: Int

    /// - Parameters:
    ///   - text: all that is shown.
    ///   - source: who shows it.
    package init(_ text: String, from source: some Hashable) {
      func hash(_ purpose: UInt8) -> Int {
        var hasher = Hasher()
        hasher.combine(purpose)
        hasher.combine(source)
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        return hasher.finalize()
      }
      (first, second) = (hash(1), hash(2))
    }
  }
}
