package import Foundation
import SQL
import Sealing
import Synchronization

extension RemoteServers {
  /// Result of checking a server's id and key, in the order of the checks.
  package enum Authentication: Sendable, Hashable {
    /// No server has this UUID.
    case unknown
    /// The key is neither the present one nor one replaced minutes ago.
    case wrongKey
    /// The key is right, but the server is deactivated.
    case deactivated
    /// The key was replaced minutes ago: the server may call, but change nothing about itself
    /// (`Documentation/Decisions` 0011).
    case inGrace(RemoteServer)
    case authenticated(RemoteServer)
  }

  /// The server that authenticated with these credentials a moment ago, from the cache.
  package func server(_ credentials: Credentials) -> RemoteServer? { cache[credentials] }

  /// Checks a server's key.
  ///
  /// - Parameter credentials: key of the cache entry for a successful check; nil for none.
  package func authenticate(
    uuid: UUID, key: String, as credentials: Credentials? = nil
  ) async throws -> Authentication {
    let readAt = ContinuousClock.now
    guard let row = try await database.lookUp(Self.selectWithKeys(uuid)).first else { return .unknown }
    guard let standing = try self.standing(of: key, in: row) else { return .wrongKey }
    let server = try RemoteServer(row: row)
    guard !server.isDeactivated else { return .deactivated }
    // It is not cached, because its grace period may end at any moment.
    guard standing == .present else { return .inGrace(server) }
    if let credentials { cache.keep(server, for: credentials, readAt: readAt) }
    return .authenticated(server)
  }

  static func selectWithKeys(_ uuid: UUID) -> Statement {
    Statement(
      """
      SELECT \(RemoteServer.columns), key_hash, previous_key_hash, previous_key_until
      FROM remote_servers WHERE uuid = $1
      """, .text(uuid.canonical))
  }

  /// What a key is to a server.
  enum KeyStanding {
    case present
    /// Replaced by the present one, and in its grace period.
    case previous
  }

  /// What `key` is to the server in a row of ``selectWithKeys(_:)``; nil if it is not its key.
  func standing(of key: String, in row: Row) throws -> KeyStanding? {
    if storageKey.matches(key, hash: try row.bytes("key_hash"), for: Self.keyPurpose) { return .present }
    guard let previous = try row.optionalBytes("previous_key_hash"),
      let until = try row.optionalDate("previous_key_until"), isInGrace(until),
      storageKey.matches(key, hash: previous, for: Self.keyPurpose)
    else { return nil }
    return .previous
  }

  /// Whether a previous key is still accepted. A wrong clock, now or when the key was replaced, can only
  /// shorten the grace period; servers with the present key are not affected.
  private func isInGrace(_ until: Date) -> Bool {
    let left = until.timeIntervalSince(now())
    return left > 0 && left <= Self.previousKeyGrace
  }

  /// Gives a server a new key and returns it; it cannot be read afterwards. The old one may still call for ten minutes.
  ///
  /// - Parameters:
  ///   - key: the new key; nil: a random one.
  ///   - atOnce: whether the old key ends at once, as after a leak.
  /// - Returns: nil if there is no such server.
  package func rotateKey(_ id: Int64, to key: String? = nil, atOnce: Bool = false) async throws -> String? {
    let key = key ?? RandomText.alphanumeric(Self.keyLength)
    let change = replacement(of: id, by: key, atOnce: atOnce)
    defer { cache.clear() }
    let changed = try await database.write { connection in try connection.run(change) }
    return changed > 0 ? key : nil
  }

  /// The statement that replaces a server's key.
  func replacement(of id: Int64, by key: String, atOnce: Bool = false) -> Statement {
    let now = now()
    return Statement(
      """
      UPDATE remote_servers SET key_hash = $2, previous_key_hash = key_hash, previous_key_until = $3, updated_at = $4
      WHERE id = $1
      """,
      .integer(id), .bytes(storageKey.hash(key, for: Self.keyPurpose)),
      atOnce ? .null : .integer((now + Self.previousKeyGrace).milliseconds), .integer(now.milliseconds))
  }

  /// Gives a server that has proved its hostname a new key and returns it. The old one is invalid at once, as after a
  /// leak, and a server that has deactivated itself is active again.
  ///
  /// - Parameter key: the new key; nil: a random one.
  /// - Returns: nil if the server has no longer that hostname.
  /// - Throws: ``RegistrationError/deactivated`` if the operator has deactivated it, or the database's own error.
  package func transfer(_ server: RemoteServer, to key: String? = nil) async throws -> String? {
    let key = key ?? RandomText.alphanumeric(Self.keyLength)
    let now = Value.integer(now().milliseconds)
    let change = Statement(
      """
      UPDATE remote_servers SET key_hash = $3, previous_key_hash = NULL, previous_key_until = NULL, updated_at = $4
      WHERE id = $1 AND hostname_key = $2 RETURNING \(RemoteServer.columns)
      """,
      .integer(server.id), .text(server.hostname), .bytes(storageKey.hash(key, for: Self.keyPurpose)), now)
    defer { cache.clear() }
    return try await database.write { connection in
      guard let row = try connection.query(change).first else { return nil }
      guard try !RemoteServer(row: row).isDeactivatedByOperator else { throw RegistrationError.deactivated }
      try connection.audit(.keyTransferred, server: server.id, at: now)
      try connection.reactivate(server.id, at: now)
      return key
    }
  }
}

extension RemoteServers {
  package func setContact(_ email: String, of id: Int64) async throws {
    defer { cache.clear() }
    _ = try await database.execute(
      Statement(
        "UPDATE remote_servers SET contact_email = $2, updated_at = $3 WHERE id = $1", .integer(id),
        .text(email),
        .integer(now().milliseconds)))
  }
}

/// Caches what was read, so that a busy server does not cost a query and a key check for each call.
///
/// It can only confirm: a call that would be refused is always looked up. Changes by other processes take
/// effect when an entry is older than ``lifetime``.
package final class ReadCache<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  package static var lifetime: Duration { .milliseconds(200) }

  private let maximum: Int
  private let state = Mutex(State())

  private struct State {
    var values: [Key: (value: Value, readAt: ContinuousClock.Instant)] = [:]
    /// What was read before this may be older than the change after which it was cleared.
    var clearedAt: ContinuousClock.Instant?
  }

  /// - Parameter maximum: number of entries; beyond it the cache is emptied.
  package init(maximum: Int) {
    self.maximum = maximum
  }

  package subscript(key: Key) -> Value? {
    state.withLock { state in
      state.values[key].flatMap { ContinuousClock.now - $0.readAt < Self.lifetime ? $0.value : nil }
    }
  }

  /// Caches what was read, unless a change has cleared the cache since the read began.
  package func keep(_ value: Value, for key: Key, readAt: ContinuousClock.Instant) {
    state.withLock { state in
      if let clearedAt = state.clearedAt, readAt <= clearedAt { return }
      if state.values.count >= maximum { state.values.removeAll() }
      state.values[key] = (value, readAt)
    }
  }

  /// Forgets everything, after a change.
  package func clear() {
    state.withLock { state in
      state.values.removeAll()
      state.clearedAt = .now
    }
  }
}

extension RemoteServers {
  /// Identifies what a caller has shown: 128 bits of a hash with a seed of this process, so that no secret is
  /// stored and nobody can construct a collision.
  package struct Credentials: Sendable, Hashable {
    private let first, second: Int

    /// - Parameters:
    ///   - text: all of the credentials.
    ///   - source: the caller.
    package init(_ text: String, from source: some Hashable) {
      func hash(_ purpose: UInt8) -> Int {
        var hasher = Hasher()
        hasher.combine(purpose)
        hasher.combine(source)
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        return hasher.finalize()
      }
      first = hash(1)
      second = hash(2)
    }
  }
}
