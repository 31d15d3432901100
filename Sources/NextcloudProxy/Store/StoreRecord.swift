internal import Foundation
internal import HTTP
internal import Sealing

/// What is remembered of the store that was last served, and whether devices have been lost since then. Told
/// what the store looks like now and then, it knows.
struct StoreRecord: Sendable, Hashable {
  /// How long a loss makes what is unknown doubtful.
  static let doubt: TimeInterval = 3600

  /// The id of the store.
  private(set) var id: [UInt8]
  /// How many devices it had.
  private(set) var devices: Int64
  /// How many had been removed from it by then.
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
  func isDoubtful(at now: Date) -> Bool {
    guard let age = lostAt.map(now.timeIntervalSince) else { return false }
    return age < Self.doubt
  }
}

extension StoreRecord {
  /// Reads what ``bytes`` has written; nil for anything else.
  init?(bytes: [UInt8]) {
    guard let json = try? JSON.parse(bytes), let id = json["store"]?.string.flatMap(Base64.decodeStrictly),
      let devices = json["devices"]?.integer, devices >= 0, let removed = json["removed"]?.integer,
      removed >= 0
    else { return nil }
    self.init(.init(id: id, devices: devices, removed: removed))
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
