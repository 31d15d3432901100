package import Foundation
package import SQL

/// Which bouncer keys the nodes of the service have in their folders.
///
/// During the rollout of a new key, some nodes have it before others. A chat server treats a node's answer
/// that a key is unknown as final, so the node must be able to tell a key that another node has from one that
/// no node has.
package struct BouncerKeys: Sendable {
  /// The interval at which a node announces its keys.
  package static let interval = Duration.seconds(20)
  /// Seconds after which an announcement is void: the node is gone, or no longer has the key.
  package static let validity: TimeInterval = 180

  private let database: any Database
  /// This node's id: its own announcements say nothing about the others.
  private let node = Value.text(UUID().canonical)
  private let now: @Sendable () -> Date

  package init(database: any Database, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.now = now
  }

  /// Announces that this node has exactly these public keys, in base64.
  package func announce(_ publicKeys: some Sequence<String> & Sendable) async throws {
    let now = now()
    let time = Value.integer(now.milliseconds)
    try await database.write { connection in
      try connection.run(
        "DELETE FROM node_bouncer_keys WHERE node = $1 OR announced_at <= $2", node,
        .integer((now - Self.validity).milliseconds))
      for key in publicKeys {
        try connection.run(
          "INSERT INTO node_bouncer_keys (node, public_key, announced_at) VALUES ($1, $2, $3)", node,
          .text(key),
          time)
        try connection.run(
          "INSERT INTO bouncer_keys (public_key) VALUES ($1) ON CONFLICT (public_key) DO NOTHING", .text(key))
      }
    }
  }

  /// Whether the public key is or was one of this service's.
  package func isOwn(_ publicKey: String) async throws -> Bool {
    try await !database.query("SELECT 1 FROM bouncer_keys WHERE public_key = $1", .text(publicKey)).isEmpty
  }

  /// Whether another node has announced the public key.
  package func isAnnounced(_ publicKey: String) async throws -> Bool {
    try await !database.query(
      "SELECT 1 FROM node_bouncer_keys WHERE public_key = $1 AND announced_at > $2 AND node <> $3",
      .text(publicKey), .integer((now() - Self.validity).milliseconds), node
    ).isEmpty
  }
}
