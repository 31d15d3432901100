internal import Foundation
internal import HTTP
internal import Registrations

extension MigrationWork {
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

  func bringServers() async throws -> Bool {
    let owners = try await owners()
    return try await bring(.servers) { batch in
      var ready = Ready<(id: Int64, server: RegistrationImport.Server)>()
      for server in try batch.records(of: .servers, SourceServer.init(_:)) {
        guard !server.key.isEmpty else {
          ready.rejects.append(.init(id: server.id, reason: .noKey))
          continue
        }
        let isOwner = owners[Hostname.key(of: server.hostname)].map { $0 == server.id } ?? true
        ready.rows.append((server.id, prepared(server, ownsHostname: isOwner)))
      }
      return ready
    } store: { rows, connection in
      var stored = Stored()
      for (id, server) in rows {
        let known = try target.store(server, on: connection)
        try MigrationJournal.note(server: id, as: known.id, on: connection)
        if known.isNew { stored.counts.imported += 1 } else { stored.counts.alreadyThere += 1 }
        if known.isRenamed { stored.counts.renamed += 1 }
      }
      return stored
    }
  }

  private func prepared(_ server: SourceServer, ownsHostname: Bool) -> RegistrationImport.Server {
    RegistrationImport.Server(
      uuid: server.uuid, key: server.key, hostname: server.hostname,
      isHostnameTaken: !ownsHostname || !Self.isPlain(server.hostname)
        || Hostname.key(of: server.hostname) == RemoteServers.builtInHostname,
      contactEmail: server.contactEmail,
      deactivatedAt: server.isDeactivated ? server.lastUpdatedAt ?? target.startedAt : nil,
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
    let rows = try await origin.rows(of: .servers, after: 0, batch: migration.batch)
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
