package import Foundation
import HTTP
import SQL
import Sealing

/// The state in which the database was last found, and when it was last found to have lost something.
package struct StoreRecord: Sendable, Hashable {
  /// Seconds after a loss for which unknown devices are in doubt.
  static let doubt: TimeInterval = 3600
  /// Seconds without a heartbeat after which a database may be an older copy.
  static let longestPause: TimeInterval = 300

  /// The kinds of loss that can be detected.
  package enum Loss: Sendable {
    /// The database is another one.
    case replaced
    /// More than half of the Nextcloud devices are gone.
    case emptied
    /// A PostgreSQL standby was promoted, or a backup recovered.
    case recovered
    /// This folder's mark or the heartbeat is older than before.
    case putBack
    /// No service has used the database for a while, so it may be a copy from then.
    case unused

    var sentence: String {
      switch self {
      case .replaced: "the database was replaced"
      case .emptied: "the database has lost Nextcloud devices"
      case .recovered: "the database was recovered or has failed over"
      case .putBack: "the database was put back to an earlier state"
      case .unused: "no service has used the database for a while, so it may be an older copy"
      }
    }
  }

  /// A database that was served before this one.
  package struct Earlier: Sendable, Hashable {
    package let id: [UInt8]
    /// When the other one was found in its place.
    package let since: Date

    package static let meaning = """
      Another database was served before, which store.json in the folder of the keys knows. Chat servers and phones that \
      only that one knows are refused.
      """
    package static let advice = """
      If that is not meant, stop the service, put the database back or correct database.url, and start it. If it is, \
      remove store.json from the folder of the keys (keys.directory), at each node.
      """
  }

  /// The id of the `Keys` folder, by which its mark in the database is found; 16 bytes.
  package let folder: [UInt8]
  /// The database as it was last found.
  package private(set) var state: StoreState
  /// When it was last found to have lost something.
  package private(set) var lostAt: Date?
  /// The database that was served before, until it is back or the operator has said that this one is right.
  package private(set) var earlier: Earlier?

  /// The first record of a database: there is nothing yet that it could have lost.
  package init(_ state: StoreState, folder: [UInt8] = newFolder()) {
    self.state = state
    self.folder = folder
  }

  package static func newFolder() -> [UInt8] { (0..<16).map { _ in UInt8.random(in: .min ... .max) } }

  /// The id of the database that should be served.
  package var expectedID: [UInt8] { earlier?.id ?? state.id }

  /// Compares the record with a new state and takes it over.
  ///
  /// - Parameter pause: seconds for which nothing had used the database when this process found it.
  /// - Returns: what the database has lost.
  @discardableResult
  package mutating func update(_ found: StoreState, at now: Date, after pause: TimeInterval = 0) -> Loss? {
    var loss = loss(in: found)
    if loss == nil, pause > Self.longestPause { loss = .unused }
    if found.id == earlier?.id {
      earlier = nil
    } else if loss == .replaced, earlier == nil {
      earlier = Earlier(id: state.id, since: now)
    }
    if loss != nil { lostAt = now }
    // A time in the future was set by a wrong clock; the hour begins now.
    lostAt = lostAt.map { min($0, now) }
    adopt(found.lostAt, at: now)
    state = found
    state.lostAt = nil
    return loss
  }

  /// Takes over what another node has found. A time in the future was set by a wrong clock.
  mutating func adopt(_ otherLostAt: Date?, at now: Date) {
    guard let otherLostAt, otherLostAt <= now else { return }
    lostAt = max(lostAt ?? .distantPast, otherLostAt)
  }

  /// The operator has said that the database which is served now is the right one.
  mutating func confirm() { earlier = nil }

  /// The record once the next mark is in the database.
  func marked(_ mark: Int64) -> StoreRecord {
    var record = self
    record.state.mark = max(mark, state.mark)
    return record
  }

  /// The loss that a new state shows when compared with this record; nil for none.
  ///
  /// - Parameter most: the number at which the counting of its devices stopped.
  func loss(in found: StoreState, countedTo most: Int64 = .max) -> Loss? {
    if found.id != state.id { return .replaced }
    if let before = state.timeline, let after = found.timeline, after != before { return .recovered }
    if found.mark < state.mark { return .putBack }
    if let before = state.heartbeat, found.heartbeat ?? .distantPast < before { return .putBack }
    return found.devices < min(leastExpected(removed: found.removed), most) ? .emptied : nil
  }

  /// The number of Nextcloud devices below which the database counts as emptied: half of those that were not
  /// removed, since some phones may have registered again.
  ///
  /// - Parameter removed: how many devices have ever been removed from it.
  func leastExpected(removed: Int64) -> Int64 {
    // A database restored from a backup has a lower number of removals.
    (max(0, state.devices - max(0, removed - state.removed)) + 1) / 2
  }

  /// Whether an unknown device may be one that the database has lost.
  package func isDoubtful(at now: Date) -> Bool {
    lostAt.map { now.timeIntervalSince($0) < Self.doubt } ?? false
  }

  /// Reads what ``bytes`` has written; nil if it is malformed.
  package init?(bytes: [UInt8]) {
    guard bytes.count < 1 << 16, let json = try? JSON.parse(bytes),
      let id = json["store"]?.string.flatMap(Base64.decodeStrictly),
      let devices = json["devices"]?.integer, devices >= 0, let removed = json["removed"]?.integer,
      removed >= 0
    else { return nil }
    state = StoreState(id: id, devices: devices, removed: removed)
    // An older program has written none.
    folder = json["folder"]?.string.flatMap(Base64.decodeStrictly) ?? Self.newFolder()
    state.mark = json["mark"]?.integer ?? 0
    if let id = json["earlier"]?.string.flatMap(Base64.decodeStrictly),
      let since = json["earlier_at"]?.integer
    {
      earlier = Earlier(id: id, since: Date(timeIntervalSince1970: TimeInterval(since)))
    }
    state.timeline = json["timeline"]?.string
    state.heartbeat = json["heartbeat"]?.integer.map { Date(timeIntervalSince1970: Double($0) / 1000) }
    lostAt = json["lost_at"]?.integer.map { Date(timeIntervalSince1970: TimeInterval($0)) }
  }

  /// The record in a file; nil if there is none.
  package init?(at file: URL) {
    guard let bytes = try? Data(contentsOf: file) else { return nil }
    self.init(bytes: [UInt8](bytes))
  }

  /// The file in a `Keys` folder.
  package static func file(in directory: String) -> URL {
    URL(fileURLWithPath: directory).appending(path: "store.json")
  }

  /// The file's contents: JSON; `heartbeat` in milliseconds, `lost_at` and `earlier_at` in seconds since 1970.
  package var bytes: [UInt8] {
    JSON.object([
      "store": .string(Base64.encode(state.id)), "devices": .integer(state.devices),
      "removed": .integer(state.removed),
      "timeline": .optional(state.timeline), "heartbeat": .optional(state.heartbeat?.milliseconds),
      "lost_at": .optional(lostAt.map { Int64($0.timeIntervalSince1970) }),
      "folder": .string(Base64.encode(folder)), "mark": .integer(state.mark),
      "earlier": .optional(earlier.map { Base64.encode($0.id) }),
      "earlier_at": .optional(earlier.map { Int64($0.since.timeIntervalSince1970) }),
    ]).bytes
  }
}
