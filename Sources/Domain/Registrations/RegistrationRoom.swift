package import Basics
package import Foundation
package import HTTP
import HTTPClient
package import Logging
package import Platform
import Providers
package import SQL
package import Sealing
import Synchronization

/// How many registrations each may have that others make: a chat server, and whoever calls the push proxy or the Web Push
/// gateway, by address (`Documentation/Decisions` 0016).
///
/// The rows are counted every ten minutes, since that reads them all. In between each node adds those that it takes, and
/// counts some of them twice: renewals of a chat server's registrations look like new ones. So a number is a little too
/// high until the next count, and what other nodes take meanwhile is missing from it.
package final class RegistrationRoom: Sendable {
  /// Maximum numbers of registrations.
  package struct Limits: Sendable {
    /// Of a chat server.
    let ofServer: Int
    /// Of all addresses together, which share them.
    let ofAddresses: [Wire: Int]

    package init(ofServer: Int, devices: Int, subscriptions: Int) {
      self.ofServer = ofServer
      ofAddresses = [.nextcloud: devices, .gateway: subscriptions]
    }
  }

  private struct Counts {
    /// By row of the server.
    var servers: SharedBudget<Int64>
    /// By ``Owner/network``. Of networks with a few registrations, which are most of them, only those since the last count are
    /// counted as theirs.
    var networks: [Wire: SharedBudget<Int64>]

    init(_ limits: Limits) {
      servers = SharedBudget(.max, most: limits.ofServer)
      networks = limits.ofAddresses.mapValues { SharedBudget($0) }
    }
  }

  /// What is counted.
  private enum Taker: String, CaseIterable {
    case server, nextcloud
    case gateway = "webpush_gateway"
  }

  /// The descriptions of its metrics.
  package static let metrics: [MetricDescription] = [
    .init(
      "push_bouncer_registrations_refused_total", .counter, labels: ["taker"],
      "Registrations refused for lack of room: of a chat server, or of an address at the push proxy or the Web Push gateway."
    )
  ]

  /// Seconds after which a registration that anybody may make, and that was never used, is removed unless it is renewed.
  package static let trial: TimeInterval = 30 * 86_400
  private static let countInterval = Duration.seconds(600)
  /// Networks with fewer registrations are not kept in memory.
  private static let fewest: Int64 = 20
  private static let refusals = RateLimitedLog.Limit("refused registrations", perMinute: 1)

  private let database: any Database
  private let limits: Limits
  private let now: @Sendable () -> Date
  private let logger: Logger
  private let rateLimitedLog = RateLimitedLog()
  private let counts: Mutex<Counts>
  private let refused = Mutex<[Taker: Int]>([:])

  package init(
    _ limits: Limits, database: any Database, now: @escaping @Sendable () -> Date, logger: Logger
  ) {
    self.limits = limits
    counts = Mutex(Counts(limits))
    self.database = database
    self.now = now
    self.logger = logger
  }

  /// Takes room for registrations of a chat server, some of which may be there already.
  ///
  /// - Returns: whether there was room.
  package func take(_ count: Int = 1, ofServer server: Int64) -> Bool {
    counts.withLock { $0.servers.take(count, of: server) }
  }

  /// The refusal of a chat server's registration for which there is no room.
  package func refusal(ofServer hostname: String) -> APIError {
    refuse(.server, ["server": "\(hostname)", "limit": "bouncer.max_registrations_per_server"])
    return .tooMany(
      "This server has \(limits.ofServer) registrations here, and no more are taken", retryAfter: 3600)
  }

  /// Takes room for a registration that anybody may make.
  ///
  /// - Parameter kind: ``Wire/nextcloud`` or `gateway`.
  /// - Throws: 429 if there is none for the owner's network.
  package func take(_ wire: Wire, of owner: Owner) throws(APIError) {
    guard counts.withLock({ $0.networks[wire]?.take(of: owner.network) }) != true else { return }
    let isGateway = wire == .gateway
    refuse(
      isGateway ? .gateway : .nextcloud,
      ["limit": isGateway ? "webpush_gateway.max_subscriptions" : "nextcloud.max_devices"])
    throw .tooMany("There is no room for more from this address. Try again later.", retryAfter: 3600)
  }

  private func refuse(_ taker: Taker, _ metadata: Logger.Metadata) {
    refused.withLock { $0[taker, default: 0] += 1 }
    rateLimitedLog.log(
      .warning, "a registration was refused: there is no room for more", Self.refusals, to: logger,
      now: now(),
      metadata: metadata.merging(["taker": "\(taker.rawValue)"]) { $1 })
  }

  /// Its background work and metrics.
  package var feature: Feature {
    var feature = Feature()
    feature.work = [{ await self.run() }]
    feature.gauges = [
      PolledGauge("push_bouncer_registrations_refused_total") { [self] in
        let refused = refused.withLock(\.self)
        return Taker.allCases.map { .init(Double(refused[$0] ?? 0), labels: [("taker", $0.rawValue)]) }
      }
    ]
    return feature
  }

  /// Counts the rows now and every ten minutes, until the task is cancelled.
  private func run() async {
    await every(Self.countInterval) {
      try await count()
    } onError: { [logger] error in
      logger.warning(
        "registrations could not be counted", metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
  }

  /// Counts the rows.
  package func count() async throws {
    let wires = Wire.self
    var new = Counts(limits)
    let ofServers = "\(wires.e2ee.rawValue), \(wires.legacy.rawValue)"
    for row in try await database.query(
      Statement(
        """
        SELECT COALESCE(g.server_id, r.server_id) AS server, COUNT(*) AS count
        FROM registrations g LEFT JOIN remote_realms r ON r.id = g.realm_id
        WHERE g.wire IN (\(ofServers)) GROUP BY 1
        """))
    {
      guard let server = try row.optionalInt64("server") else { continue }
      new.servers.add(Int(try row.int64("count")), of: server)
    }
    for (wire, limit) in limits.ofAddresses {
      let total = Int(
        try await database.query(
          "SELECT COUNT(*) AS count FROM registrations WHERE wire = $1", .integer(wire.rawValue)
        ).returned.int64("count"))
      let rows = try await database.query(
        """
        SELECT owner >> 32 AS network, COUNT(*) AS count FROM registrations WHERE wire = $1
        GROUP BY 1 HAVING COUNT(*) >= $2
        """, .integer(wire.rawValue), .integer(Self.fewest))
      var counted = SharedBudget<Int64>(limit)
      for row in rows { counted.add(Int(try row.int64("count")), of: try row.int64("network")) }
      counted.add(total - counted.total, of: nil)
      new.networks[wire] = counted
    }
    counts.withLock { $0 = new }
  }
}

extension StorageKey {
  /// The owner that stands for an address: keyed hashes, so that the address itself is not stored.
  package func owner(at address: ClientAddress, for purpose: Purpose) -> Owner {
    .address(
      number(address.source.description, for: purpose), in: number(address.network.description, for: purpose))
  }
}
