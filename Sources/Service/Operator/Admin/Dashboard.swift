package import Delivery
package import Foundation
import HTTP
package import Platform
package import Registrations
package import SQL
package import Sealing

/// Gathers what the operator's pages show. Expensive counts are cached and repeated at most once a minute,
/// however many people look.
package struct Dashboard: Sendable {
  struct Sources: Sendable {
    let database: any Database
    let storageKey: StorageKey
    let keyFolder: KeyFolder
    let registrations: RegistrationStore
    let outbox: Outbox
    let tables: [@Sendable () async throws -> AdminTable]
    let serverFacts: [@Sendable (Int64) async throws -> AdminFact?]
    let configuration: Configuration
    let now: @Sendable () -> Date
  }

  /// A chat server with the number of its realms.
  typealias Server = (server: RemoteServer, realms: Int64)

  struct Realm: Sendable {
    let id: Int64
    let uuid: String
    let host: String
    let name: String
    let isDeactivated: Bool
    let lastRequestAt: Date?
  }

  /// Data that changes constantly and is cheap to read.
  struct Recent: Sendable {
    let report: HourlyCounts.Report
    let registrationsByKey: [String: Int64]
    let servers: [Server]
    let nodes: [Nodes.Node]
    let waitingSince: Date?
    /// The chat servers over their pace, those of which most waits first.
    let overPace: [OutboxContents.ServerOverPace]
  }

  /// Data that costs a read of every registration, or of every server's hourly counts.
  struct Census: Sendable {
    /// What each chat server has sent during the last 7 days, by its row.
    let week: [Int64: HourlyCounts.ServerHour]
    let devices: [DeviceCounts.RealmKey: DeviceCounts]
    let byServer: [Int64: DeviceCounts]
    let keys: [RegistrationStore.KeyUsage]
    let tables: [AdminTable]
  }

  /// How long a page waits for each of its parts.
  private static let timeout = Duration.seconds(3)

  let sources: Sources
  let readiness: Readiness
  /// When this process started to serve.
  let startedAt: Date
  private let recent: Cached<Recent>
  private let census: Cached<Census>

  /// - Parameters:
  ///   - features: those that add a table to the overview, or facts to a chat server's page.
  package init(
    database: any Database, storageKey: StorageKey, keyFolder: KeyFolder, registrations: RegistrationStore,
    outbox: Outbox, features: [Feature], configuration: Configuration, readiness: Readiness,
    now: @escaping @Sendable () -> Date
  ) {
    let sources = Sources(
      database: database, storageKey: storageKey, keyFolder: keyFolder, registrations: registrations,
      outbox: outbox, tables: features.flatMap(\.tables), serverFacts: features.flatMap(\.serverFacts),
      configuration: configuration, now: now)
    self.sources = sources
    self.readiness = readiness
    startedAt = now()
    recent = Cached(for: .seconds(5)) { try await sources.recent() }
    census = Cached(for: .seconds(60)) { try await sources.census() }
  }

  func latestRecent() async -> (value: Recent, age: Duration?)? { await recent.value(within: Self.timeout) }
  func latestCensus() async -> Census? { await census.value(within: Self.timeout)?.value }
}

extension Dashboard.Sources {
  fileprivate func recent() async throws -> Dashboard.Recent {
    let counts = HourlyCounts(database: database, now: now)
    async let report = counts.report(hours: 24)
    async let keys = counts.registrationsByKey(hours: 7 * 24)
    async let servers = servers()
    async let nodes = Nodes(database: database, now: now).serving()
    async let waitingSince = outbox.oldest()
    async let overPace = serversOverPace()
    return try await Dashboard.Recent(
      report: report, registrationsByKey: keys, servers: servers, nodes: nodes, waitingSince: waitingSince,
      overPace: overPace)
  }

  fileprivate func census() async throws -> Dashboard.Census {
    let devices = try await DeviceCounts.all(in: database)
    var counted: [AdminTable] = []
    for table in tables { counted.append(try await table()) }
    return Dashboard.Census(
      week: try await HourlyCounts(database: database, now: now).servers(hours: 7 * 24), devices: devices,
      byServer: devices.reduce(into: [:]) { $0[$1.key.server, default: .init()] += $1.value },
      keys: try await registrations.keyUsage(), tables: counted)
  }

  func serversOverPace() async throws -> [OutboxContents.ServerOverPace] {
    outbox.count == 0 ? [] : try await OutboxContents(database: database).serversOverPace()
  }

  /// All chat servers, or the one with this row id.
  func servers(_ id: Int64? = nil) async throws -> [Dashboard.Server] {
    let statement = Statement(
      """
      SELECT \(RemoteServer.columns),
        (SELECT COUNT(*) FROM remote_realms r WHERE r.server_id = s.id AND r.is_locally_deleted = 0) AS realms
      FROM remote_servers s WHERE \(id == nil ? "TRUE" : "id = $1") ORDER BY hostname_key
      """, arguments: id.map { [.integer($0)] } ?? [])
    return try await database.query(statement).map {
      (try RemoteServer(row: $0), try $0.int64("realms"))
    }
  }

  /// The realms of a chat server, by host.
  func realms(of server: Int64, limit: Int) async throws -> [Dashboard.Realm] {
    let statement = Statement(
      """
      SELECT id, uuid, host, name, is_deactivated, last_request_at FROM remote_realms
      WHERE server_id = $1 AND is_locally_deleted = 0 ORDER BY host, id LIMIT $2
      """, .integer(server), .integer(Int64(limit)))
    return try await database.query(statement).map { row in
      Dashboard.Realm(
        id: try row.int64("id"), uuid: try row.text("uuid"), host: try row.text("host"),
        name: try row.text("name"),
        isDeactivated: try row.flag("is_deactivated"), lastRequestAt: try row.optionalDate("last_request_at"))
    }
  }
}
