package import Foundation
package import SQL

/// Which bouncer keys the nodes of the service have in their folders.
///
/// While a new key is being rolled out some nodes have it before others. A chat server takes the word
/// of a node that does not know a key for final, so that node must be able to tell a key that another
/// one has from a key that nobody has.
package struct BouncerKeys: Sendable {
  /// How often a node tells of its keys, in seconds.
  package static let interval: TimeInterval = 60
  /// After so long a node has gone, or no longer has the key.
  private static let validity = 3 * interval

  private let database: any Database
  private let now: @Sendable () -> Date

  /// The keys of the nodes on `database`.
  package init(database: any Database, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.now = now
  }

  /// Tells that this node has these keys, in base64.
  package func announce(_ publicKeys: some Sequence<String> & Sendable) async throws {
    let now = Value.integer(now().milliseconds)
    try await database.write { connection in
      for key in publicKeys {
        try connection.run(
          Statement(
            """
            INSERT INTO bouncer_keys (public_key, announced_at) VALUES ($1, $2)
            ON CONFLICT (public_key) DO UPDATE SET announced_at = excluded.announced_at
            """, .text(key), now))
      }
    }
  }

  /// Tells that this node no longer has them. Another one that has will say so again.
  package func withdraw(_ publicKeys: some Sequence<String> & Sendable) async throws {
    try await database.write { connection in
      for key in publicKeys {
        try connection.run(
          Statement("UPDATE bouncer_keys SET announced_at = NULL WHERE public_key = $1", .text(key)))
      }
    }
  }

  /// Whether some node has the key.
  package func isAnnounced(_ publicKey: String) async throws -> Bool {
    let statement = Statement(
      "SELECT 1 FROM bouncer_keys WHERE public_key = $1 AND announced_at > $2", .text(publicKey),
      .integer((now() - Self.validity).milliseconds))
    return try await !database.query(statement).isEmpty
  }
}
