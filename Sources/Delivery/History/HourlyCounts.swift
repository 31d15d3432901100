package import Foundation
import Providers
package import SQL

/// The history as it was written down (`hourly_counts`), for people to read.
package struct HourlyCounts: Sendable {
  /// A row.
  struct Key: Hashable, Comparable {
    let event: String
    let hour: Int64
    let subject: String
    let detail: String

    static func < (left: Key, right: Key) -> Bool {
      (left.event, left.hour, left.subject, left.detail)
        < (right.event, right.hour, right.subject, right.detail)
    }
  }

  /// Hours that are kept.
  private static let keptHours: Int64 = 90 * 24
  /// Hours that are kept of chat servers, of which there may be thousands.
  private static let keptServerHours: Int64 = 14 * 24

  private let database: any Database
  private let now: @Sendable () -> Date

  /// The history in `database`.
  package init(database: any Database, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.now = now
  }

  /// Hours since 1970.
  static func hour(of date: Date) -> Int64 { Int64((date.timeIntervalSince1970 / 3600).rounded(.down)) }

  /// What became of notifications in an hour, or in several.
  package struct Hour: Sendable, Hashable {
    /// When it began; hours are UTC's.
    package let start: Date
    /// A provider took them.
    package var accepted: Int64 = 0
    /// A provider refused them for good.
    package var refused: Int64 = 0
    /// Tries in vain, after which another was put off.
    package var postponed: Int64 = 0
    /// They had waited in the outbox for too long.
    package var givenUp: Int64 = 0
    /// How long the accepted took.
    package var latency = Latency()
  }

  /// What one route does.
  package struct RouteCounts: Sendable, Hashable {
    /// The route, as in logs; `webpush` is all of Web Push.
    package let route: String
    /// What it has come to.
    package var total: Hour
    /// What it has accepted in the present hour and the one before.
    package var latestAccepted: Int64 = 0
    /// The reasons of refusals, most frequent first.
    package var refused: [Count] = []
    /// The reasons of tries in vain, most frequent first.
    package var postponed: [Count] = []
  }

  /// So many for a reason.
  package struct Count: Sendable, Hashable {
    /// The provider's name for it, or ours.
    package let reason: String
    /// How many.
    package let count: Int64
  }

  /// All notifications of the last hours, this one included.
  package struct Report: Sendable, Hashable {
    /// Each hour, in order; those without notifications too.
    package let hours: [Hour]
    /// All of them together.
    package let total: Hour
    /// By route, in the order of their names.
    package let routes: [RouteCounts]
  }

  /// The notifications of the last hours, this one included.
  package func report(hours: Int) async throws -> Report {
    let first = Self.hour(of: now()) - Int64(hours) + 1
    let rows = try await rows(["accepted", "refused", "postponed", "given_up"], since: first)
    var all = (0..<hours).map { Hour(start: Self.start(of: first + Int64($0))) }
    let begin = Self.start(of: first)
    var (total, routes) = (Hour(start: begin), [String: RouteCounts]())
    var reasons: [String: [Key: Int64]] = [:]
    for (key, count) in rows {
      total.add(key, count)
      routes[key.subject, default: RouteCounts(route: key.subject, total: Hour(start: begin))].total.add(
        key, count)
      if key.event == "refused" || key.event == "postponed" {
        reasons[key.subject, default: [:]][
          Key(event: key.event, hour: 0, subject: "", detail: key.detail), default: 0] += count
      }
      if key.event == "accepted", key.hour >= first + Int64(hours) - 2 {
        routes[key.subject]?.latestAccepted += count
      }
      let index = Int(key.hour - first)
      // Another node's clock may be ahead.
      if all.indices.contains(index) { all[index].add(key, count) }
    }
    for (route, counts) in reasons {
      let sorted = counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
      routes[route]?.refused = sorted.filter { $0.key.event == "refused" }.map(Count.init)
      routes[route]?.postponed = sorted.filter { $0.key.event == "postponed" }.map(Count.init)
    }
    return Report(hours: all, total: total, routes: routes.values.sorted { $0.route < $1.route })
  }

  /// What a chat server has handed in during an hour, or several.
  package struct ServerHour: Sendable, Hashable {
    /// When it began.
    package let start: Date
    /// Notifications, one for each device.
    package var sent: Int64 = 0
    /// Those of them that were refused at once.
    package var failed: Int64 = 0
  }

  /// What a chat server has handed in during the last hours, hour by hour.
  package func report(ofServer server: Int64, hours: Int) async throws -> [ServerHour] {
    let first = Self.hour(of: now()) - Int64(hours) + 1
    let statement = Statement(
      """
      SELECT event, hour, count FROM hourly_counts
      WHERE event IN ('sent', 'failed') AND subject = $1 AND detail = '' AND hour IN ($list)
      """, .text("\(server)"), list: (0..<hours).map { .integer(first + Int64($0)) })
    var all = (0..<hours).map { ServerHour(start: Self.start(of: first + Int64($0))) }
    for row in try await database.query(statement) {
      let (index, count) = (Int(try row.int64(1) - first), try row.int64(2))
      if try row.text(0) == "sent" { all[index].sent += count } else { all[index].failed += count }
    }
    return all
  }

  /// What each chat server has handed in during the last hours, by its row.
  package func servers(hours: Int) async throws -> [Int64: ServerHour] {
    let first = Self.hour(of: now()) - Int64(hours) + 1
    let start = Self.start(of: first)
    return try await totals(of: ["sent", "failed"], since: first).reduce(into: [:]) { servers, total in
      guard let server = Int64(total.subject) else { return }
      if total.event == "sent" {
        servers[server, default: ServerHour(start: start)].sent += total.count
      } else {
        servers[server, default: ServerHour(start: start)].failed += total.count
      }
    }
  }

  /// How often phones have registered with each bouncer key in the last hours.
  package func registrationsByKey(hours: Int) async throws -> [String: Int64] {
    let first = Self.hour(of: now()) - Int64(hours) + 1
    return try await totals(of: ["registered"], since: first).reduce(into: [:]) { $0[$1.subject] = $1.count }
  }

  /// Removes what is older than 90 days, and 14 days of chat servers: a bounded number of rows.
  package func removeOld(limit: Int) async throws -> Int {
    let hour = Self.hour(of: now())
    let statement = Statement(
      """
      DELETE FROM hourly_counts WHERE (event, hour, subject, detail) IN (
        SELECT event, hour, subject, detail FROM hourly_counts
        WHERE (event IN ('sent', 'failed') AND hour < $1)
          OR (event IN ('accepted', 'refused', 'postponed', 'given_up', 'registered') AND hour < $2)
        LIMIT $3)
      """, .integer(hour - Self.keptServerHours), .integer(hour - Self.keptHours), .integer(Int64(limit)))
    return try await database.write { try $0.run(statement) }
  }

  private func rows(_ events: [String], since hour: Int64) async throws -> [(key: Key, count: Int64)] {
    let statement = Statement(
      "SELECT event, hour, subject, detail, count FROM hourly_counts WHERE hour >= $1 AND event IN ($list)",
      .integer(hour), list: events.map { .text($0) })
    return try await database.read { connection in
      try connection.query(statement).map { row in
        (
          Key(
            event: try row.text(0), hour: try row.int64(1), subject: try row.text(2),
            detail: try row.text(3)), try row.int64(4)
        )
      }
    }
  }

  private func totals(of events: [String], since hour: Int64) async throws -> [(
    event: String, subject: String, count: Int64
  )] {
    let statement = Statement(
      """
      SELECT event, subject, CAST(SUM(count) AS BIGINT) FROM hourly_counts
      WHERE hour >= $1 AND event IN ($list) GROUP BY event, subject
      """, .integer(hour), list: events.map { .text($0) })
    return try await database.read { connection in
      try connection.query(statement).map { (try $0.text(0), try $0.text(1), try $0.int64(2)) }
    }
  }

  private static func start(of hour: Int64) -> Date { Date(timeIntervalSince1970: Double(hour) * 3600) }
}

extension HourlyCounts.Hour {
  fileprivate mutating func add(_ key: HourlyCounts.Key, _ count: Int64) {
    switch key.event {
    case "accepted":
      accepted += count
      latency.add(count, bucket: Int(key.detail) ?? 0)
    case "refused": refused += count
    case "postponed": postponed += count
    default: givenUp += count
    }
  }
}

extension HourlyCounts.Count {
  fileprivate init(_ pair: (key: HourlyCounts.Key, value: Int64)) {
    self.init(reason: pair.key.detail, count: pair.value)
  }
}

extension HourlyCounts.Key {
  init(_ event: History.Event, hour: Int64) {
    let (name, subject, detail) =
      switch event {
      case .accepted(let route, let bucket): ("accepted", route.counted.description, "\(bucket)")
      case .refused(let route, let reason): ("refused", route.counted.description, reason.rawValue)
      case .postponed(let route, let reason): ("postponed", route.counted.description, reason.rawValue)
      case .givenUp(let route): ("given_up", route.counted.description, "")
      case .unconfigured(let provider): ("refused", provider.rawValue, Reason.unconfigured.rawValue)
      case .sent(let server): ("sent", "\(server)", "")
      case .failed(let server): ("failed", "\(server)", "")
      case .registered(let key): ("registered", key, "")
      }
    self.init(event: name, hour: hour, subject: subject, detail: detail)
  }

  /// Two nodes count the same things: each adds what it has.
  func addition(of count: Int64) -> Statement {
    Statement(
      """
      INSERT INTO hourly_counts (event, hour, subject, detail, count) VALUES ($1, $2, $3, $4, $5)
      ON CONFLICT (event, hour, subject, detail) DO UPDATE SET count = hourly_counts.count + excluded.count
      """, .text(event), .integer(hour), .text(subject), .text(detail), .integer(count))
  }
}
