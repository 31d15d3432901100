package import Foundation
package import SQL

/// Which bouncer keys the nodes of the service have in their folders.
///
/// During the rollout of a new key, some nodes have it before others. A chat server treats a node's answer
/// that a key is unknown as final, so the node must be able to tell a key that another node has from one that
/// no node has.
package struct BouncerKeys: Sendable {
  /// How often a node announces its keys.
  package static let interval = Duration.seconds(20)
  /// Seconds after which an announcement is void: the node is gone, or no longer has the key.
  package static let validity: TimeInterval = 180

  private let database: any Database
  private let now: @Sendable () -> Date

  package init(database: any Database, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.now = now
  }

  /// Announces that this node has these public keys, in base64.
  package func announce(_ publicKeys: some Sequence<String> & Sendable) async throws {
    let now = Value.integer(now().milliseconds)
    try await database.write { connection in
      for key in publicKeys {
        try connection.run(
          """
          INSERT INTO bouncer_keys (public_key, announced_at) VALUES ($1, $2)
          ON CONFLICT (public_key) DO UPDATE SET announced_at = excluded.announced_at
          """, .text(key), now)
      }
    }
  }

  /// Whether the public key is or was one of ours.
  package func isOurs(_ publicKey: String) async throws -> Bool {
    try await !database.query("SELECT 1 FROM bouncer_keys WHERE public_key = $1", .text(publicKey)).isEmpty
  }

  /// Whether some node has announced the public key.
  package func isAnnounced(_ publicKey: String) async throws -> Bool {
    try await !database.query(
      "SELECT 1 FROM bouncer_keys WHERE public_key = $1 AND announced_at > $2", .text(publicKey),
      .integer((now() - Self.validity).milliseconds)
    ).isEmpty
  }
}
