import Basics
import Foundation
import HTTP
import HTTPClient
import Registrations
import SQL
import Sealing

/// One run of an import: the tables one after the other.
///
/// Rows of the source are matched with ours by what is the same in both: servers and realms by their UUIDs,
/// registrations by their owner and token.
struct ImportWork {
  /// The row here of a server or a realm of the source.
  struct Known: Sendable {
    let row: Int64
    let server: Int64
  }

  /// A batch that is ready to be stored.
  struct Ready<Row: Sendable>: Sendable {
    /// Its size, in the unit of ``ZulipOrigin/size(of:)``.
    let size: Int64
    var counts = ImportCounts()
    var rows: [Row] = []
    var refused: [(id: Int64, reason: Refusal)] = []
  }

  /// Results of storing a batch.
  struct Stored: Sendable {
    var counts = ImportCounts()
    var refused: [(id: Int64, reason: Refusal)] = []
    /// The servers or realms here, by their ids in the source.
    var known: [Int64: Known] = [:]
    /// Hashes of tokens registered under a user's number.
    var byNumber: Set<Int64> = []
  }

  let run: ImportRun
  let origin: any ZulipOrigin
  /// When the run began, in whole milliseconds.
  let startedAt: Date
  /// Registrations with this id or a higher one were added after the run had begun.
  let firstID: Int64

  var counts: [ZulipTable: ImportCounts] = [:]
  private(set) var known: [ZulipTable: [Int64: Known]] = [:]
  /// Hashes of the tokens that the source has under a user's number.
  private(set) var byNumber: Set<Int64> = []

  private let rejects: FileHandle?
  private let progress: @Sendable (ImportRun.Progress) -> Void
  private var size: (done: Int64, total: Int64) = (0, 0)

  init(
    _ run: ImportRun, _ origin: any ZulipOrigin, rejects: FileHandle?,
    _ progress: @escaping @Sendable (ImportRun.Progress) -> Void
  ) async throws {
    self.run = run
    self.origin = origin
    startedAt = run.now().stored
    firstID =
      try await run.database.query(
        Statement("SELECT COALESCE(MAX(id), 0) + 1 AS first_id FROM registrations")
      )
      .first?.int64("first_id") ?? 1
    self.rejects = rejects
    self.progress = progress
    for table in ZulipTable.allCases where origin.has(table) {
      // E2EE registrations are read twice.
      size.total += try await origin.size(of: table) * (table == .devices ? 2 : 1)
    }
    try writeRejects("table,id,reason\n")
  }

  /// Imports all tables; returns false if it was stopped.
  mutating func importAll() async throws -> Bool {
    guard try await importServers(), try await importRealms() else { return false }
    // A live registration of a token takes precedence over ended ones, so those are read afterwards.
    guard try await importDevices(ended: false), try await importDevices(ended: true) else { return false }
    guard try await importTokens() else { return false }
    return try await mergeUserIDs()
  }

  /// Imports a table. The next rows are read, checked and sealed while others are stored.
  ///
  /// - Parameters:
  ///   - prepare: prepares a row outside of a transaction; throws ``Refusal``. Returns nil for a row that
  ///     another call handles.
  ///   - store: stores a batch; may run more than once.
  /// - Returns: false if it was stopped.
  mutating func importTable<Row: Sendable>(
    _ table: ZulipTable, prepare: @escaping @Sendable (SourceRow) throws -> Row?,
    store: @escaping @Sendable ([Row], any Connection) throws -> Stored
  ) async throws -> Bool {
    guard origin.has(table) else { return true }
    let source = try await origin.rows(of: table, batch: run.batch)
    @Sendable func next() async throws -> Ready<Row>? {
      let (rows, size) = try await source.next()
      var ready = Ready<Row>(size: size)
      ready.rows.reserveCapacity(rows.count)
      for row in rows {
        do {
          guard let row = try prepare(row) else { continue }
          ready.rows.append(row)
        } catch let reason as Refusal {
          ready.refused.append((try row.id, reason))
        }
        ready.counts.read += 1
      }
      return rows.isEmpty ? nil : ready
    }
    var batch = try await next()
    while let ready = batch {
      if Task.isCancelled { return false }
      async let following = next()
      let start = ContinuousClock.now
      let stored = try await run.database.write { [self] connection in
        try preferIndexes(on: connection)
        return try store(ready.rows, connection)
      }
      known[table, default: [:]].merge(stored.known) { $1 }
      byNumber.formUnion(stored.byNumber)
      var counts = counts[table] ?? ImportCounts()
      counts += ready.counts
      counts += stored.counts
      let refused = ready.refused + stored.refused
      for (_, reason) in refused { counts.refused[reason, default: 0] += 1 }
      self.counts[table] = counts
      try writeRejects(refused.map { "\(table.rawValue),\($0.id),\($0.reason.rawValue)\n" }.joined())
      size.done += ready.size
      progress(
        ImportRun.Progress(
          table: table, rows: counts.read,
          share: size.total > 0 ? min(1, Double(size.done) / Double(size.total)) : 1))
      // SQLite has one writer, and another program retries every tenth of a second. The pause lets it write,
      // and ends early when the run is stopped.
      if run.database.engine == .sqlite {
        try? await Task.sleep(for: min(ContinuousClock.now - start, .milliseconds(120)))
      }
      batch = try await following
    }
    return !Task.isCancelled
  }

  private func writeRejects(_ lines: String) throws(ZulipSourceError) {
    do {
      try rejects?.write(contentsOf: Data(lines.utf8))
    } catch {
      throw ZulipSourceError("the refused rows cannot be written: is the disk full?")
    }
  }

  /// Makes PostgreSQL use indexes in this transaction. It has no statistics of a table that is just being
  /// filled, and would read all of it for every batch.
  func preferIndexes(on connection: any Connection) throws {
    if run.database.engine == .postgreSQL { try connection.runScript("SET LOCAL enable_seqscan = off") }
  }
}

/// Servers and realms; existing ones are not changed.
extension ImportWork {
  mutating func importServers() async throws -> Bool {
    let owners = try await hostnameOwners()
    return try await importTable(.servers) { [self] row in
      guard let key = row["api_key"], !key.isEmpty else { throw Refusal.noKey }
      let id = try row.id
      let written = row["hostname"] ?? ""
      let hostname = Hostname.key(of: written)
      let isOwn =
        owners[hostname]?.id == id && Self.isPlain(written) && hostname != RemoteServers.builtInHostname
      let deactivatedAt = try row.flag("deactivated") ? row.time("last_updated") ?? startedAt : nil
      let columns: [Value] = [
        .text(row["contact_email"] ?? ""), .bytes(run.storageKey.hash(key, for: RemoteServers.keyPurpose)),
        .integer(deactivatedAt?.milliseconds),
        .integer(try row.time("last_request_datetime")?.milliseconds), .text(row["last_version"]),
        .text(row["last_merge_base"]), .integer(try row.optionalInteger("last_api_feature_level")),
        .integer(try row.time("last_audit_log_update")?.milliseconds), .integer(startedAt.milliseconds),
      ]
      return (id: id, uuid: try row.uuid("uuid"), hostname: hostname, isOwn: isOwn, columns: columns)
    } store: { servers, connection in
      var stored = Stored()
      for server in servers {
        let present = Statement("SELECT id FROM remote_servers WHERE uuid = $1", .text(server.uuid.canonical))
        if let id = try connection.query(present).first?.int64("id") {
          stored.known[server.id] = Known(row: id, server: id)
          stored.counts[.alreadyThere] += 1
          continue
        }
        // A server whose hostname another one has is imported under a name that nobody can have, because its
        // devices could not be reached without it. It keeps its id and key, and gets a name by registering
        // with a free one.
        let others = Statement(
          "SELECT id FROM remote_servers WHERE hostname_key = $1", .text(server.hostname))
        let isFree = try server.isOwn && connection.query(others).isEmpty
        let hostname =
          isFree ? server.hostname : Hostname.substitute(for: server.hostname, server: server.uuid)
        let statement = Statement(
          """
          INSERT INTO remote_servers
            (uuid, hostname, hostname_key, contact_email, key_hash, deactivated_at, last_request_at, last_version,
             last_merge_base, last_api_feature_level, last_audit_log_update_at, created_at, updated_at)
          VALUES ($1, $2, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11) RETURNING id
          """, arguments: [.text(server.uuid.canonical), .text(hostname)] + server.columns)
        let id = try connection.query(statement).returned.int64("id")
        stored.known[server.id] = Known(row: id, server: id)
        stored.counts[.imported] += 1
        if !isFree { stored.counts[.renamed] += 1 }
      }
      return stored
    }
  }

  /// Which server keeps a hostname that several have, which Zulip's bouncer does not prevent: an active one, then
  /// the one that called last, then the oldest.
  private func hostnameOwners() async throws -> [String: (isOff: Int, quiet: TimeInterval, id: Int64)] {
    let source = try await origin.rows(of: .servers, batch: run.batch)
    var owners: [String: (isOff: Int, quiet: TimeInterval, id: Int64)] = [:]
    while case let (rows, _) = try await source.next(), !rows.isEmpty {
      for row in rows where row["api_key"]?.isEmpty == false {
        let name = Hostname.key(of: row["hostname"] ?? "")
        let lastRequest = try row.time("last_request_datetime")?.timeIntervalSince1970 ?? 0
        let claim = (isOff: try row.flag("deactivated") ? 1 : 0, quiet: -lastRequest, id: try row.id)
        if let owner = owners[name], owner < claim { continue }
        owners[name] = claim
      }
    }
    return owners
  }

  /// Whether a hostname can be shown in a list; Zulip's rules were different once.
  private static func isPlain(_ hostname: String) -> Bool {
    (1...253).contains(hostname.utf8.count)
      && hostname.unicodeScalars.allSatisfy {
        !$0.properties.isWhitespace && $0.value >= 0x20 && $0.value != 0x7f
      }
  }

  mutating func importRealms() async throws -> Bool {
    try await importTable(.realms) { [self] row in
      guard let server = known[.servers]?[try row.integer("server_id")]?.row else {
        throw Refusal.unknownServer
      }
      let secret = row["uuid_owner_secret"] ?? ""
      // The realm's number at its server is unknown to other bouncers; the server sends it with its next
      // upload.
      let columns: [Value] = [
        .bytes(run.storageKey.hash(secret, for: RealmSync.ownerSecretPurpose)), .text(row["host"] ?? ""),
        .text(row["name"] ?? ""), .flag(try row.flag("is_system_bot_realm")),
        .text(Self.authenticationMethods(row["authentication_methods"])),
        .integer(try row.optionalInteger("org_type") ?? 0), .flag(try row.flag("realm_deactivated")),
        .flag(try row.flag("realm_locally_deleted")),
        .integer((try row.time("realm_date_created") ?? startedAt).milliseconds),
        .integer(try row.time("last_request_datetime")?.milliseconds),
      ]
      return (id: try row.id, server: server, uuid: try row.uuid("uuid"), columns: columns)
    } store: { realms, connection in
      var stored = Stored()
      for realm in realms {
        let present = Statement(
          "SELECT id, server_id FROM remote_realms WHERE uuid = $1", .text(realm.uuid.canonical))
        if let row = try connection.query(present).first {
          if try row.int64("server_id") == realm.server {
            stored.known[realm.id] = Known(row: try row.int64("id"), server: realm.server)
            stored.counts[.alreadyThere] += 1
          } else {
            stored.refused.append((realm.id, .realmOfAnotherServer))
          }
          continue
        }
        let statement = Statement(
          """
          INSERT INTO remote_realms
            (server_id, uuid, owner_secret_hash, host, name, is_system_bot_realm, authentication_methods, org_type,
             is_deactivated, is_locally_deleted, date_created, last_request_at)
          VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) RETURNING id
          """, arguments: [.integer(realm.server), .text(realm.uuid.canonical)] + realm.columns)
        let id = try connection.query(statement).returned.int64("id")
        stored.known[realm.id] = Known(row: id, server: realm.server)
        stored.counts[.imported] += 1
      }
      return stored
    }
  }

  /// The same form as from an upload, so that the next upload finds no change.
  private static func authenticationMethods(_ text: String?) -> String {
    guard let text, case .object(let object)? = try? JSON.parse(text) else { return "{}" }
    let flags = object.members.filter { if case .bool = $0.value { true } else { false } }
    return JSON.object(JSON.Object(flags.sorted { $0.name < $1.name })).text
  }
}
