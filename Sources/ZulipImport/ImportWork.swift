import Foundation
import Registrations
import SQL
import Sealing

/// One run of an import: the tables one after the other.
///
/// A source's ids are found here by what is the same everywhere: servers and realms by their UUIDs, registrations by
/// their owner and token.
struct ImportWork {
  /// A realm of the source as it is here.
  struct KnownRealm: Sendable {
    let realm: Int64
    let server: Int64
  }

  /// A row that was refused, by its id in the source.
  struct Reject: Sendable {
    let id: Int64
    let reason: Refusal
  }

  /// A batch that has only to be stored.
  struct Ready<Row: Sendable>: Sendable {
    /// How many rows of the source it is.
    var read: Int
    var rows: [Row] = []
    var rejects: [Reject] = []
  }

  /// What storing a batch has come to.
  struct Stored: Sendable {
    var counts = ImportCounts()
    var rejects: [Reject] = []
    /// What servers and realms of the source are here.
    var servers: [Int64: Int64] = [:]
    var realms: [Int64: KnownRealm] = [:]
    /// Hashes of the tokens that users by number have.
    var byNumber: Set<Int64> = []
  }

  let origin: any ZulipOrigin
  let database: any Database
  let storageKey: StorageKey
  let batch: Int
  /// When the run began, in whole milliseconds.
  let startedAt: Date
  /// Registrations with this id or a later one came in after the run had begun.
  let firstID: Int64

  /// What became of each table.
  private(set) var counts: [ZulipTable: ImportCounts] = [:]
  private(set) var servers: [Int64: Int64] = [:]
  private(set) var realms: [Int64: KnownRealm] = [:]
  /// Hashes of the tokens that the source has by a user's number.
  private(set) var byNumber: Set<Int64> = []

  private let rejects: FileHandle?
  private let progress: @Sendable (ImportRun.Progress) -> Void
  private var size: (done: Int64, total: Int64) = (0, 0)

  init(
    _ run: ImportRun, _ origin: any ZulipOrigin, rejects: FileHandle?,
    _ progress: @escaping @Sendable (ImportRun.Progress) -> Void
  ) async throws {
    (self.origin, database, storageKey, batch) = (origin, run.database, run.storageKey, run.batch)
    startedAt = run.now().stored
    firstID =
      try await run.database.query(Statement("SELECT COALESCE(MAX(id), 0) + 1 FROM registrations"))
      .first?.int64(0) ?? 1
    (self.rejects, self.progress) = (rejects, progress)
    for table in ZulipTable.allCases where origin.has(table) {
      // E2EE registrations are read twice.
      size.total += try await origin.size(of: table) * (table == .devices ? 2 : 1)
    }
    try note(Data("table,id,reason\n".utf8))
  }

  /// Whether all of it is done; otherwise it was stopped.
  mutating func bringAll() async throws -> Bool {
    guard try await bringServers(), try await bringRealms() else { return false }
    // Of several registrations of a token a live one counts, so the others come after all of those.
    guard try await bringDevices(ended: false), try await bringDevices(ended: true) else { return false }
    return try await bringTokens()
  }

  /// Brings a table in. The next rows are read, checked and sealed while others are stored.
  ///
  /// - Parameters:
  ///   - prepare: makes a batch ready, outside of a transaction.
  ///   - store: stores it; may be run more than once.
  /// - Returns: whether it came to the end.
  mutating func bring<Row: Sendable>(
    _ table: ZulipTable, prepare: @escaping @Sendable (SourceBatch) throws -> Ready<Row>,
    store: @escaping @Sendable ([Row], any Connection) throws -> Stored
  ) async throws -> Bool {
    guard origin.has(table) else { return true }
    let source = try await origin.rows(of: table, batch: batch)
    @Sendable func next() async throws -> (size: Int64, ready: Ready<Row>)? {
      try await source.next().map { (size: $0.size, ready: try prepare($0)) }
    }
    var batch = try await next()
    while let (bytes, ready) = batch {
      if Task.isCancelled { return false }
      async let following = next()
      let start = ContinuousClock.now
      let stored = try await database.write { [self] connection in
        try preferIndexes(on: connection)
        return try store(ready.rows, connection)
      }
      try note(stored, of: ready, in: table)
      size.done += bytes
      progress(
        ImportRun.Progress(
          table: table, rows: counts[table]?.read ?? 0,
          share: size.total > 0 ? min(1, Double(size.done) / Double(size.total)) : 1))
      // SQLite has one writer: another program looks every tenth of a second whether it may write. The pause is cut
      // short when the run is stopped.
      if database.engine == .sqlite {
        try? await Task.sleep(for: min(ContinuousClock.now - start, .milliseconds(120)))
      }
      batch = try await following
    }
    return !Task.isCancelled
  }

  private mutating func note<Row>(_ stored: Stored, of ready: Ready<Row>, in table: ZulipTable) throws {
    servers.merge(stored.servers) { $1 }
    realms.merge(stored.realms) { $1 }
    byNumber.formUnion(stored.byNumber)
    let refused = ready.rejects + stored.rejects
    change(table) { counts in
      counts.read += ready.read
      counts += stored.counts
      for reject in refused { counts.refused[reject.reason, default: 0] += 1 }
    }
    try note(
      Data(refused.map { "\(table.rawValue),\($0.id),\($0.reason.rawValue)\n" }.joined().utf8))
  }

  mutating func change(_ table: ZulipTable, _ body: (inout ImportCounts) -> Void) {
    body(&counts[table, default: ImportCounts()])
  }

  private func note(_ lines: Data) throws(ZulipSourceError) {
    do {
      try rejects?.write(contentsOf: lines)
    } catch {
      throw ZulipSourceError("the refused rows cannot be written: is the disk full?")
    }
  }

  /// Lets a transaction find rows by their indexes. Without it PostgreSQL, which knows nothing of a table
  /// that is just being filled, would read all of it for every batch.
  func preferIndexes(on connection: any Connection) throws {
    if database.engine == .postgreSQL { try connection.runScript("SET LOCAL enable_seqscan = off") }
  }
}

/// An E2EE registration ready to be stored, its token sealed.
struct SealedE2EE: Sendable {
  fileprivate let key: Key
  fileprivate let kind: Int64
  fileprivate let token: [UInt8]
  fileprivate let tokenHash: Int64
  fileprivate let iosAppID: String?
  fileprivate let endedAt: Int64?

  fileprivate struct Key: Hashable {
    let realm: Int64
    let tokenID: Int64
  }
}

extension ImportWork {
  /// Seals a registration with a realm, by its row. Takes microseconds, so it is not for a transaction.
  func seal(_ token: PushToken, iosAppID: String?, realm: Int64, endedAt: Date?) -> SealedE2EE {
    SealedE2EE(
      key: .init(realm: realm, tokenID: token.id.storage), kind: token.kind.storage,
      token: storageKey.seal(token.text, at: RegistrationStore.place(realm: realm, token.id)),
      tokenHash: storageKey.tokenHash(of: token), iosAppID: iosAppID, endedAt: endedAt?.milliseconds)
  }

  /// Takes in the registrations of tokens that their realms have not registered here.
  ///
  /// - Parameter rows: as many as a statement can have arguments.
  func store(_ rows: [SealedE2EE], on connection: any Connection) throws -> ImportCounts {
    var counts = ImportCounts()
    var fresh: [SealedE2EE] = []
    var present: [SealedE2EE.Key: Int64] = [:]
    let known = try connection.query(
      Statement(
        """
        SELECT realm_id, token_id, id FROM registrations
        WHERE token_hash IN ($list) AND token_id IS NOT NULL
        """, list: rows.map { .integer($0.tokenHash) }))
    for row in known {
      present[.init(realm: try row.int64(0), tokenID: try row.int64(1))] = try row.int64(2)
    }
    for row in rows {
      if let id = present[row.key] {
        if id >= firstID { counts.foldedTokens += 1 } else { counts.alreadyThere += 1 }
      } else {
        present[row.key] = .max
        fresh.append(row)
      }
    }
    try insertE2EE.run(fresh.map(arguments), on: connection, database.engine)
    counts.imported = fresh.count
    return counts
  }

  private func arguments(_ row: SealedE2EE) -> [Value] {
    [
      .integer(row.key.realm), .integer(row.key.tokenID), .integer(row.kind), .bytes(row.token),
      .integer(row.tokenHash), .text(row.iosAppID ?? ""), .integer(startedAt.milliseconds),
      .integer(row.endedAt ?? .min),
    ]
  }
}

private let insertE2EE = RowInsertion(
  "registrations",
  [
    "wire": "1", "realm_id": "$", "token_id": "$", "kind": "$", "token": "$", "token_hash": "$",
    "target": "NULLIF($, '')", "registered_at": "$", "ended_at": "NULLIF($, \(Int64.min))",
  ])

/// Inserts many rows: into PostgreSQL with few statements, each of which is a way to the server and back. SQLite
/// takes them one by one, because it would keep a copy of each page that a statement of several rows changes.
///
/// A statement takes a power of two of rows, so that there are few texts to prepare. Arguments are never
/// NULL where a column may be: PostgreSQL would prepare a text again for each pattern of NULLs.
struct RowInsertion: Sendable {
  private static let maximumRows = 256

  private let width: Int
  /// By the power of two.
  private let texts: [String]

  /// - Parameter columns: each with what it is set to, `$` being its argument, if it has one.
  init(_ table: String, _ columns: KeyValuePairs<String, String>) {
    let width = columns.count { $0.value.contains("$") }
    let names = columns.map(\.key).joined(separator: ", ")
    self.width = width
    texts = (0...Self.maximumRows.trailingZeroBitCount).map { power in
      let tuples = (0..<1 << power).map { row in
        var argument = row * width
        let values = columns.map { column in
          guard column.value.contains("$") else { return column.value }
          argument += 1
          return column.value.replacing("$", with: "$\(argument)")
        }
        return "(\(values.joined(separator: ", ")))"
      }
      return "INSERT INTO \(table) (\(names)) VALUES \(tuples.joined(separator: ", "))"
    }
  }

  /// Inserts rows of as many arguments as there are parameters.
  func run(_ rows: [[Value]], on connection: any Connection, _ engine: DatabaseEngine) throws {
    if engine == .sqlite {
      for row in rows { try connection.run(Statement(texts[0], arguments: row)) }
      return
    }
    var rest = rows[...]
    while !rest.isEmpty {
      let power = min(Int.bitWidth - 1 - rest.count.leadingZeroBitCount, texts.count - 1)
      let chunk = rest.prefix(1 << power)
      rest = rest.dropFirst(chunk.count)
      var arguments: [Value] = []
      arguments.reserveCapacity(chunk.count * width)
      for row in chunk { arguments += row }
      try connection.run(Statement(texts[power], arguments: arguments))
    }
  }
}
