package import Foundation
internal import HTTP
package import Logging
internal import SQL
internal import Sealing
internal import Synchronization
internal import Timing

/// Remembers in a file, beside the keys and not in the database, which store was last served: a database
/// that was lost must not make servers delete the registrations of their users.
package final class StoreLossDetector: Sendable {
  private static let interval = Duration.seconds(60)
  /// More devices than this are not counted for a request's sake, but once a minute.
  private static let mostCounted: Int64 = 1000

  private struct State {
    var record: StoreRecord?
    /// Whether the operator has been told that the file cannot be written.
    var hasWarned = false
  }

  private let file: URL
  private let devices: NextcloudDevices
  /// Whether anything may be taken as expired now: not while the clock is doubted.
  let mayExpire: @Sendable () -> Bool
  private let logger: Logger
  private let state: Mutex<State>

  /// - Parameter file: `nextcloud-store.json` in the `Keys` folder; need not be there yet.
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

  /// Looks at the store from time to time until its task is cancelled, and once more then, so that a restart forgets
  /// nothing.
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

  /// A device was registered: the first ones are remembered at once, as whoever loses them would know of none.
  func registered() async {
    guard state.withLock({ $0.record?.devices ?? 0 }) == 0 else { return }
    _ = try? await look()
  }

  /// Whether a device that the store does not know may be one that it has lost. Looks at the store first, at
  /// no more of it than it takes.
  func isDoubtful() async throws -> Bool {
    if let record = state.withLock({ $0.record }) {
      if isDoubtful(record) { return true }
      let most = min(record.leastExpected(removed: record.removed), Self.mostCounted)
      let found = try await devices.storeState(countingTo: most)
      if found.id == record.id, found.devices >= min(record.leastExpected(removed: found.removed), most) {
        return false
      }
    }
    return isDoubtful(try await look())
  }

  private func isDoubtful(_ record: StoreRecord) -> Bool {
    record.isDoubtful(at: devices.now()) || record.lostAt != nil && !mayExpire()
  }

  /// Compares the store with what is remembered of it.
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
        metadata: ["devices": "\(after.devices)", "before": "\(before?.devices ?? 0)"])
    }
    // What is in memory will do until the next start.
    if !write(after), state.withLock({ !exchange(&$0.hasWarned, with: true) }) {
      logger.warning("\(file.lastPathComponent) cannot be written into the folder of the keys")
    }
    return after
  }

  /// Puts the file there whole, readable for nobody else; false if that cannot be done.
  private func write(_ record: StoreRecord) -> Bool {
    let new = file.appendingPathExtension("new")
    guard
      FileManager.default.createFile(
        atPath: new.path, contents: Data(record.bytes), attributes: [.posixPermissions: 0o600]),
      let handle = try? FileHandle(forWritingTo: new), (try? handle.synchronize()) != nil,
      (try? handle.close()) != nil
    else { return false }
    return rename(new.path, file.path) == 0
  }
}

/// What is remembered of the store that was last served, and whether devices have been lost since then.
struct StoreRecord: Sendable, Hashable {
  /// How long a loss makes what is unknown doubtful.
  static let doubt: TimeInterval = 3600

  /// No other store has it.
  private(set) var id: [UInt8]
  private(set) var devices: Int64
  /// How many devices had ever been removed from the store by then.
  private(set) var removed: Int64
  /// When it was last found emptied or replaced.
  private(set) var lostAt: Date?

  /// The first look at a store of which nothing is remembered: there is nothing that it could have lost.
  init(_ state: NextcloudDevices.StoreState) {
    id = state.id
    devices = state.devices
    removed = state.removed
  }

  /// Looks again. A store with another id has replaced the one before; one with less than half of the
  /// devices that were not removed has been emptied, and perhaps some phones have come back since. Where there
  /// were no devices, none are lost.
  mutating func look(_ state: NextcloudDevices.StoreState, at now: Date) {
    if devices > 0, state.id != id || state.devices < leastExpected(removed: state.removed) { lostAt = now }
    // By a clock that was wrong; the hour begins now.
    if let time = lostAt, time > now { lostAt = now }
    id = state.id
    devices = state.devices
    removed = state.removed
  }

  /// With fewer devices than that the store has been emptied, of which so many have been removed ever.
  func leastExpected(removed: Int64) -> Int64 {
    // A store that was put back to an earlier day has removed fewer.
    (max(0, devices - max(0, removed - self.removed)) + 1) / 2
  }

  /// Whether a device that the store does not know may be one that it has lost.
  func isDoubtful(at now: Date) -> Bool { lostAt.map { now.timeIntervalSince($0) < Self.doubt } ?? false }

  /// Reads what ``bytes`` has written; nil for anything else.
  init?(bytes: [UInt8]) {
    guard let json = try? JSON.parse(bytes), let id = json["store"]?.string.flatMap(Base64.decodeStrictly),
      let devices = json["devices"]?.integer, devices >= 0, let removed = json["removed"]?.integer,
      removed >= 0
    else { return nil }
    (self.id, self.devices, self.removed) = (id, devices, removed)
    lostAt = json["lost_at"]?.integer.map { Date(timeIntervalSince1970: TimeInterval($0)) }
  }

  /// As it is kept: JSON, its time in seconds since 1970.
  var bytes: [UInt8] {
    JSON.object([
      "store": .string(Base64.encode(id)), "devices": .integer(devices), "removed": .integer(removed),
      "lost_at": .optional(lostAt.map { Int64($0.timeIntervalSince1970) }),
    ]).bytes
  }
}
