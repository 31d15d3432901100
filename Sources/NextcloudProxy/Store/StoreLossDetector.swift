package import Foundation
package import Logging
internal import SQL
internal import Synchronization
internal import Timing

/// Remembers in a file, beside the keys and not in the database, which store was last served: a database
/// that was lost must not make servers delete the registrations of their users.
package final class StoreLossDetector: Sendable {
  /// How often the store is looked at.
  private static let interval = Duration.seconds(60)

  private struct State {
    var record: StoreRecord?
    /// Whether the operator has been told that the file cannot be written.
    var hasWarned = false
  }

  private let file: URL
  private let devices: NextcloudDevices
  private let now: @Sendable () -> Date
  private let mayExpire: @Sendable () -> Bool
  private let logger: Logger
  private let state: Mutex<State>

  /// - Parameters:
  ///   - file: `nextcloud-store.json` in the `Keys` folder; need not be there yet.
  ///   - mayExpire: whether anything may be taken as expired now: not while the clock is doubted.
  package init(
    file: URL, devices: NextcloudDevices, now: @escaping @Sendable () -> Date,
    mayExpire: @escaping @Sendable () -> Bool = { true }, logger: Logger
  ) {
    self.file = file
    self.devices = devices
    self.now = now
    self.mayExpire = mayExpire
    self.logger = logger
    let record = (try? Data(contentsOf: file)).flatMap { StoreRecord(bytes: [UInt8]($0)) }
    state = Mutex(State(record: record))
  }

  /// Looks at the store from time to time until its task is cancelled, and once more then.
  package func run() async {
    await every(Self.interval) {
      try await look()
    } onError: { error in
      logger.warning(
        "the number of Nextcloud devices could not be checked",
        metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
    // What came since the last look is not forgotten by a restart.
    _ = try? await look()
  }

  /// A device was registered: the first ones are remembered at once, as whoever loses them would know of none.
  func registered() async {
    guard state.withLock({ $0.record?.devices ?? 0 }) == 0 else { return }
    _ = try? await look()
  }

  /// More devices than this are not counted for a request's sake, but once a minute.
  private static let mostCounted: Int64 = 1000

  /// Whether a device that the store does not know may be one that it has lost. Looks at the store first, at
  /// no more of it than it takes.
  func isDoubtful() async throws -> Bool {
    if let record = state.withLock({ $0.record }) {
      if isDoubtful(record) { return true }
      let most = min(record.leastExpected(removed: record.removed), Self.mostCounted)
      if let found = try await devices.state(countingTo: most), found.id == record.id,
        found.devices >= min(record.leastExpected(removed: found.removed), most)
      {
        return false
      }
    }
    return isDoubtful(try await look())
  }

  private func isDoubtful(_ record: StoreRecord) -> Bool {
    record.isDoubtful(at: now()) || record.lostAt != nil && !mayExpire()
  }

  /// Compares the store with what is remembered of it.
  @discardableResult
  func look() async throws -> StoreRecord {
    let found = try await devices.storeState()
    let now = now()
    let (before, after) = state.withLock { state in
      let before = state.record
      var record = before ?? StoreRecord(found)
      record.look(found, at: now)
      state.record = record
      return (before, record)
    }
    guard after != before else { return after }
    if after.isDoubtful(at: now), after.lostAt != before?.lostAt {
      logger.warning(
        "the database has lost Nextcloud devices: for an hour servers are not told that devices are unknown",
        metadata: ["devices": "\(after.devices)", "before": "\(before?.devices ?? 0)"])
    }
    remember(after)
    return after
  }

  private func remember(_ record: StoreRecord) {
    do {
      try write(record)
    } catch {
      // What is in memory will do until the next start.
      let isFirst = state.withLock { state in
        defer { state.hasWarned = true }
        return !state.hasWarned
      }
      guard isFirst else { return }
      logger.warning("\(file.lastPathComponent) cannot be written into the folder of the keys")
    }
  }

  /// Puts the file there whole, readable for nobody else.
  private func write(_ record: StoreRecord) throws {
    let new = file.appendingPathExtension("new")
    guard
      FileManager.default.createFile(
        atPath: new.path, contents: Data(record.bytes), attributes: [.posixPermissions: 0o600])
    else { throw CocoaError(.fileWriteUnknown) }
    let handle = try FileHandle(forWritingTo: new)
    try handle.synchronize()
    try handle.close()
    guard rename(new.path, file.path) == 0 else { throw CocoaError(.fileWriteUnknown) }
  }
}
