package import Foundation
package import SQL

/// Lets one node at a time do what only one need do. A node that has died loses its lease when the time
/// is up.
package struct MaintenanceLease: Sendable {
  private let database: any Database
  private let name: String
  private let node = UUID()
  private let now: @Sendable () -> Date

  /// - Parameter name: of what is done; nodes that share a database share it.
  package init(_ name: String, database: any Database, now: @escaping @Sendable () -> Date) {
    self.name = "lease.\(name)"
    self.database = database
    self.now = now
  }

  /// Whether this node is the one, for so many seconds from now on: because it was, or nobody is. A lease that ends
  /// further ahead than any that is given now was taken by a clock that was wrong.
  package func claim(for seconds: TimeInterval) async throws -> Bool {
    // Eight bytes of time and sixteen of a node: byte strings compare as their times do.
    let now = now()
    let node = withUnsafeBytes(of: node.uuid) { Array($0) }
    let rows = try await database.execute(
      Statement(
        """
        INSERT INTO metadata (name, value) VALUES ($1, $2)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value
        WHERE metadata.value < $3 OR metadata.value > $5 OR substr(metadata.value, 9) = $4
        RETURNING name
        """,
        .text(name), .bytes(Self.bytes(now + seconds) + node), .bytes(Self.bytes(now)), .bytes(node),
        .bytes(Self.bytes(now + seconds + 60))))
    return !rows.isEmpty
  }

  private static func bytes(_ date: Date) -> [UInt8] {
    withUnsafeBytes(of: date.milliseconds.bigEndian) { Array($0) }
  }
}
