package import Foundation
internal import HTTP
package import Logging
internal import Operations
internal import SQL
internal import Sealing
internal import Synchronization
internal import Timing

/// Detects that the database was lost or replaced, by a record in a file beside the keys: servers must not be
/// told that devices are unknown, and so delete their registrations, because our database was lost.
package final class StoreLossDetector: Sendable {
  private static let interval = Duration.seconds(60)
  /// A request counts at most this many devices; all are counted once a minute.
  private static let mostCounted: Int64 = 1000

  private struct State {
    var record: StoreRecord?
    /// Whether the operator was warned that the file cannot be written.
    var hasWarned = false
  }

  private let file: URL
  private let devices: NextcloudDevices
  /// Whether anything may be treated as expired; false while the clock is in doubt.
  let mayExpire: @Sendable () -> Bool
  private let logger: Logger
  private let state: Mutex<State>

  /// - Parameter file: `nextcloud-store.json` in the `Keys` folder; it may not exist yet.
  package init(
    file: URL, devices: NextcloudDevices, mayExpire: @escaping @Sendable () -> Bool = { true },
    logger: Logger
  ) {
    self.file = file
    self.devices = devices
    self.mayExpire = mayExpire
    self.logger = logger
    state = Mutex(State(record: (try? Data(contentsOf: file)).flatMap { StoreRecord(bytes: [UInt8]($0)) }))
  }

  /// Checks the store periodically until the task is cancelled, and once more then, so that the record is up
  /// to date after a restart.
  package func run() async {
    await every(Self.interval) {
      try await look()
    } onError: { error in
      logger.warning(
        "the number of Nextcloud devices could not be checked",
        metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
    _ = try? await look()
  }

  /// Records the first registered devices at once: until then a loss could not be detected.
  func registered() async {
    guard state.withLock({ $0.record?.state.devices ?? 0 }) == 0 else { return }
    _ = try? await look()
  }

  /// Whether an unknown device may be one that the store has lost. Checks the store first, counting as few
  /// devices as possible.
  func isDoubtful() async throws -> Bool {
    if let record = state.withLock({ $0.record }) {
      if isDoubtful(record) { return true }
      let most = min(record.leastExpected(removed: record.state.removed), Self.mostCounted)
      let found = try await devices.storeState(countingTo: most)
      if found.id == record.state.id, found.devices >= min(record.leastExpected(removed: found.removed), most)
      {
        return false
      }
    }
    return isDoubtful(try await look())
  }

  private func isDoubtful(_ record: StoreRecord) -> Bool {
    record.isDoubtful(at: devices.now()) || record.lostAt != nil && !mayExpire()
  }

  /// Compares the store with the record, and updates the record.
  @discardableResult
  func look() async throws -> StoreRecord {
    let found = try await devices.storeState()
    let now = devices.now()
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
        metadata: ["devices": "\(after.state.devices)", "before": "\(before?.state.devices ?? 0)"])
    }
    // Without the file, the record in memory lasts until the next start.
    if !write(after), state.withLock({ !exchange(&$0.hasWarned, with: true) }) {
      logger.warning("\(file.lastPathComponent) cannot be written into the folder of the keys")
    }
    return after
  }

  /// Replaces the file; returns false on failure.
  private func write(_ record: StoreRecord) -> Bool {
    (try? PrivateFile.write(record.bytes, to: file.path, replacing: true)) != nil
  }
}

/// The record of the store, and when devices were last lost from it.
struct StoreRecord: Sendable, Hashable {
  /// Seconds after a loss for which unknown devices are in doubt.
  static let doubt: TimeInterval = 3600

  /// The store as it was last found.
  private(set) var state: NextcloudDevices.StoreState
  /// When it was last found emptied or replaced.
  private(set) var lostAt: Date?

  /// The first record of a store: there is nothing yet that it could have lost.
  init(_ state: NextcloudDevices.StoreState) {
    self.state = state
  }

  /// Compares the record with a new state. Another id means that the store was replaced. Fewer than half of
  /// the devices that were not removed means that it was emptied, and that some phones may have registered
  /// again since. If there were no devices, none are lost.
  mutating func look(_ found: NextcloudDevices.StoreState, at now: Date) {
    if state.devices > 0,
      found.id != state.id || found.devices < leastExpected(removed: found.removed)
    {
      lostAt = now
    }
    // Set by a wrong clock; the hour begins now.
    lostAt = lostAt.map { min($0, now) }
    state = found
  }

  /// With fewer devices than this the store has been emptied.
  ///
  /// - Parameter removed: how many devices have ever been removed from it.
  func leastExpected(removed: Int64) -> Int64 {
    // A store restored from a backup has a lower number of removals.
    (max(0, state.devices - max(0, removed - state.removed)) + 1) / 2
  }

  /// Whether an unknown device may be one that the store has lost.
  func isDoubtful(at now: Date) -> Bool { lostAt.map { now.timeIntervalSince($0) < Self.doubt } ?? false }

  /// Reads what ``bytes`` has written; nil if it is malformed.
  init?(bytes: [UInt8]) {
    guard let json = try? JSON.parse(bytes), let id = json["store"]?.string.flatMap(Base64.decodeStrictly),
      let devices = json["devices"]?.integer, devices >= 0, let removed = json["removed"]?.integer,
      removed >= 0
    else { return nil }
    state = .init(id: id, devices: devices, removed: removed)
    lostAt = json["lost_at"]?.integer.map { Date(timeIntervalSince1970: TimeInterval($0)) }
  }

  /// The file's contents: JSON, its time in seconds since 1970.
  var bytes: [UInt8] {
    JSON.object([
      "store": .string(Base64.encode(state.id)), "devices": .integer(state.devices),
      "removed": .integer(state.removed),
      "lost_at": .optional(lostAt.map { Int64($0.timeIntervalSince1970) }),
    ]).bytes
  }
}
