import Foundation
import HTTP
import Registrations
import SQL
import Sealing

extension ImportWork {
  /// Who keeps a hostname that several servers have, which upstream does not prevent: an active one before
  /// one that is switched off, then whoever called last, then the older one. The others come in under
  /// hostnames that nobody can have, since their devices depend on their ids and keys alone.
  private struct Claim {
    let id: Int64
    let rank: (isActive: Bool, lastRequest: TimeInterval)

    init(_ server: SourceServer) {
      id = server.id
      rank = (!server.isDeactivated, server.lastRequestAt?.timeIntervalSince1970 ?? 0)
    }

    func isBefore(_ other: Claim) -> Bool {
      if rank.isActive != other.rank.isActive { return rank.isActive }
      if rank.lastRequest != other.rank.lastRequest { return rank.lastRequest > other.rank.lastRequest }
      return id < other.id
    }
  }

  mutating func bringServers() async throws -> Bool {
    let owners = try await owners()
    return try await bring(.servers) { [self] batch in
      var ready = Ready<(id: Int64, server: IncomingServer)>(read: batch.rows.count)
      for server in try batch.records(of: .servers, SourceServer.init(_:)) {
        guard !server.key.isEmpty else {
          ready.rejects.append(.init(id: server.id, reason: .noKey))
          continue
        }
        let isOwner = owners[Hostname.key(of: server.hostname)].map { $0 == server.id } ?? true
        ready.rows.append((server.id, prepared(server, ownsHostname: isOwner)))
      }
      return ready
    } store: { [self] rows, connection in
      var stored = Stored()
      for (id, server) in rows {
        let known = try store(server, on: connection)
        stored.servers[id] = known.id
        if known.isNew { stored.counts.imported += 1 } else { stored.counts.alreadyThere += 1 }
        if known.isRenamed { stored.counts.renamed += 1 }
      }
      return stored
    }
  }

  private func prepared(_ server: SourceServer, ownsHostname: Bool) -> IncomingServer {
    IncomingServer(
      uuid: server.uuid, key: server.key, hostname: server.hostname,
      isHostnameTaken: !ownsHostname || !Self.isPlain(server.hostname)
        || Hostname.key(of: server.hostname) == RemoteServers.builtInHostname,
      contactEmail: server.contactEmail,
      deactivatedAt: server.isDeactivated ? server.lastUpdatedAt ?? startedAt : nil,
      lastRequestAt: server.lastRequestAt, version: server.version, mergeBase: server.mergeBase,
      apiFeatureLevel: server.apiFeatureLevel, lastAuditLogUpdateAt: server.lastAuditLogUpdateAt)
  }

  /// Whether a hostname can stand in a list: what upstream took once is not always what it takes now.
  private static func isPlain(_ hostname: String) -> Bool {
    (1...253).contains(hostname.utf8.count)
      && hostname.unicodeScalars.allSatisfy {
        !$0.properties.isWhitespace && $0.value >= 0x20 && $0.value != 0x7f
      }
  }

  /// Which servers keep the hostnames that several have. Reads the whole table, of which a bouncer has
  /// some ten thousand rows.
  private func owners() async throws -> [String: Int64] {
    let rows = try await origin.rows(of: .servers, batch: batch)
    var claims: [String: Claim] = [:]
    var contested: Set<String> = []
    while let batch = try await rows.next() {
      for server in try batch.records(of: .servers, SourceServer.init(_:)) where !server.key.isEmpty {
        let (name, claim) = (Hostname.key(of: server.hostname), Claim(server))
        if let other = claims[name] {
          contested.insert(name)
          if other.isBefore(claim) { continue }
        }
        claims[name] = claim
      }
    }
    return claims.filter { contested.contains($0.key) }.mapValues(\.id)
  }
}

/// A chat server as another bouncer knows it.
struct IncomingServer: Sendable {
  /// Its id at the bouncers, which it keeps.
  var uuid: UUID
  /// Its key, which it keeps too.
  var key: String
  /// Its hostname.
  var hostname: String
  /// Whether another server has the hostname, which must not be asked for.
  var isHostnameTaken: Bool
  /// Whom to write to.
  var contactEmail: String
  /// When it was switched off, if it was.
  var deactivatedAt: Date?
  /// Its latest call.
  var lastRequestAt: Date?
  /// Its version.
  var version: String?
  /// The commit its version is based on.
  var mergeBase: String?
  /// Its API feature level.
  var apiFeatureLevel: Int64?
  /// When it last uploaded its audit log.
  var lastAuditLogUpdateAt: Date?
}

/// What a server is here.
struct StoredServer: Sendable, Hashable {
  /// Its row.
  let id: Int64
  /// Whether it is here only now.
  let isNew: Bool
  /// Whether it got another hostname than its own, which another server has.
  let isRenamed: Bool
}

extension ImportWork {
  /// Takes a server in, unless it is here: then it keeps the key and whatever else it has here.
  ///
  /// A server whose hostname is another's comes in under one that can be nobody's, for its devices would
  /// not be reached without it. It keeps id and key, and gets its name by registering with a free one.
  func store(_ server: IncomingServer, on connection: any Connection) throws -> StoredServer {
    let known = try connection.query(
      Statement("SELECT id FROM remote_servers WHERE uuid = $1", .text(server.uuid.canonical)))
    if let id = try known.first?.int64(0) { return StoredServer(id: id, isNew: false, isRenamed: false) }
    let own = Hostname.key(of: server.hostname)
    let isTaken = try server.isHostnameTaken || connection.isTaken(own)
    let hostname = isTaken ? Hostname.substitute(for: own, server: server.uuid) : own
    let rows = try connection.query(
      Statement(
        """
        INSERT INTO remote_servers
          (uuid, hostname, hostname_key, contact_email, key_hash, deactivated_at, last_request_at, last_version,
           last_merge_base, last_api_feature_level, last_audit_log_update_at, created_at, updated_at)
        VALUES ($1, $2, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11) RETURNING id
        """,
        .text(server.uuid.canonical), .text(hostname), .text(server.contactEmail),
        .bytes(storageKey.hash(server.key, for: RemoteServers.keyPurpose)),
        .integer(server.deactivatedAt?.milliseconds), .integer(server.lastRequestAt?.milliseconds),
        .text(server.version), .text(server.mergeBase), .integer(server.apiFeatureLevel),
        .integer(server.lastAuditLogUpdateAt?.milliseconds), .integer(startedAt.milliseconds)))
    guard let id = try rows.first?.int64(0) else {
      throw DatabaseError(.other, "an insertion returned no row")
    }
    return StoredServer(id: id, isNew: true, isRenamed: isTaken)
  }
}

extension Connection {
  fileprivate func isTaken(_ key: String) throws -> Bool {
    let rows = try query(Statement("SELECT id FROM remote_servers WHERE hostname_key = $1", .text(key)))
    return !rows.isEmpty
  }
}
