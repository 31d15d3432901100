internal import Foundation

/// Which row a registration takes among those with the same identifier, and which have to go for it.
///
/// Whoever has seen a device's identifier signed could register it with a key of his own: that makes a row
/// beside the device's own and never takes it. They are few, so that nobody fills the table with them, and
/// those that have proven nothing give way first.
struct DevicePlacement: Hashable {
  /// How many rows an identifier may have.
  static let maximumRows = 4

  /// What counts of a row.
  struct Row: Hashable {
    var id: Int64
    var userKey: [UInt8]
    var tokenHash: [UInt8]
    /// Whether a notification signed by its key has ever come.
    var isUsed: Bool
    /// The last registration or such notification.
    var seenAt: Int64
    var registeredAt: Int64
  }

  /// The row that is to hold the registration; nil is a new one.
  let row: Int64?
  /// Rows that go.
  let removed: [Int64]

  /// - Parameter rows: all with the registration's identifier.
  init(of registration: NextcloudDevice.Registration, among rows: [Row]) {
    let own = rows.first { $0.userKey == registration.userKey }
    // A caller who knows the token has the phone, whose server has a new key.
    let replaced = rows.filter { $0.id != own?.id && $0.tokenHash == registration.tokenHash }
    if let taken = own ?? replaced.first {
      row = taken.id
      removed = replaced.map(\.id).filter { $0 != taken.id }
    } else {
      row = nil
      removed = rows.sorted(by: Self.givesWay).prefix(max(0, rows.count + 1 - Self.maximumRows)).map(\.id)
    }
  }

  /// Whether the first gives way before the second.
  private static func givesWay(_ first: Row, _ second: Row) -> Bool {
    switch (first.isUsed, second.isUsed) {
    case (false, false): (first.registeredAt, first.id) < (second.registeredAt, second.id)
    case (true, true): (first.seenAt, first.id) < (second.seenAt, second.id)
    case (let isUsed, _): !isUsed
    }
  }
}
