package import Foundation
import Providers
package import SQL

/// The written history (`hourly_counts`), as reports for people.
package struct HourlyCounts: Sendable {
  /// The primary key of a row.
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

  /// Hours for which counts are kept.
  private static let keptHours: Int64 = 90 * 24
  /// Hours for which counts of chat servers are kept; there may be thousands of servers.
  private static let keptServerHours: Int64 = 14 * 24

  private let database: any Database
  private let now: @Sendable () -> Date

  package init(database: any Database, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.now = now
  }

  /// Hours since 1970 UTC.
  static func hour(of date: Date) -> Int64 { Int64((date.timeIntervalSince1970 / 3600).rounded(.down)) }

  private static func start(of hour: Int64) -> Date { Date(timeIntervalSince1970: Double(hour) * 3600) }

  /// The first of the last `hours` hours, the present one included.
  private func first(of hours: Int) -> Int64 { Self.hour(of: now()) - Int64(hours) + 1 }

  /// Results of notifications in an hour, or in several.
  package struct Hour: Sendable, Hashable {
    /// When the hour began (UTC).
    package let start: Date
    /// Accepted by a provider.
    package var accepted: Int64 = 0
    /// Refused by a provider for good.
    package var refused: Int64 = 0
    /// Failed tries after which another was scheduled.
    package var postponed: Int64 = 0
    /// Given up after waiting in the outbox for too long.
    package var givenUp: Int64 = 0
    /// Latency of the accepted ones.
    package var latency = Latency()

    fileprivate mutating func add(_ key: Key, _ count: Int64) {
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

  /// Counts of one route.
  package struct RouteCounts: Sendable, Hashable {
    /// The route as in logs; `webpush` stands for all of Web Push.
    package let route: String
    package var total: Hour
    /// Accepted in the present hour and the one before.
    package var latestAccepted: Int64 = 0
    /// Reasons of refusals, most frequent first.
    package let refused: [Count]
    /// Reasons of failed tries, most frequent first.
    package let postponed: [Count]
  }

  /// Number of notifications with a reason.
  package struct Count: Sendable, Hashable {
    /// The reason's name, the provider's or this program's own.
    package let reason: String
    package let count: Int64
  }

  /// Notifications of the last hours, the present one included.
  package struct Report: Sendable, Hashable {
    /// Every hour in order, including those without notifications.
    package let hours: [Hour]
    package let total: Hour
    /// Sorted by the routes' names.
    package let routes: [RouteCounts]
  }

  /// Reports the last hours, the present one included.
  package func report(hours: Int) async throws -> Report {
    let first = first(of: hours)
    let statement = Statement(
      """
      SELECT event, hour, subject, detail, count FROM hourly_counts
      WHERE hour >= $1 AND event IN ('accepted', 'refused', 'postponed', 'given_up')
      """, .integer(first))
    let rows = try await database.query(statement).map { row in
      (
        key: Key(
          event: try row.text("event"), hour: try row.int64("hour"), subject: try row.text("subject"),
          detail: try row.text("detail")),
        count: try row.int64("count")
      )
    }
    var all = (0..<hours).map { Hour(start: Self.start(of: first + Int64($0))) }
    var total = Hour(start: Self.start(of: first))
    for (key, count) in rows {
      total.add(key, count)
      let index = Int(key.hour - first)
      // Skips hours in the future, which another node's clock may produce.
      if all.indices.contains(index) { all[index].add(key, count) }
    }
    let routes = Dictionary(grouping: rows, by: \.key.subject).sorted { $0.key < $1.key }.map { route, rows in
      func reasons(_ event: String) -> [Count] {
        let counts = rows.filter { $0.key.event == event }.map { ($0.key.detail, $0.count) }
        return Dictionary(counts, uniquingKeysWith: +).map { Count(reason: $0, count: $1) }
          .sorted { ($1.count, $0.reason) < ($0.count, $1.reason) }
      }
      var counts = RouteCounts(
        route: route, total: Hour(start: total.start), refused: reasons("refused"),
        postponed: reasons("postponed"))
      for (key, count) in rows {
        counts.total.add(key, count)
        if key.event == "accepted", key.hour >= first + Int64(hours) - 2 { counts.latestAccepted += count }
      }
      return counts
    }
    return Report(hours: all, total: total, routes: routes)
  }

  /// Notifications that a chat server has sent in an hour, or in several.
  package struct ServerHour: Sendable, Hashable {
    /// When the hour began (UTC).
    package let start: Date
    /// Number of notifications, one for each device.
    package var sent: Int64 = 0
    /// Number of those that were refused at once.
    package var failed: Int64 = 0

    fileprivate mutating func add(_ event: String, _ count: Int64) {
      if event == "sent" { sent += count } else { failed += count }
    }
  }

  /// The notifications that a chat server has sent in the last hours, hour by hour.
  package func report(ofServer server: Int64, hours: Int) async throws -> [ServerHour] {
    let first = first(of: hours)
    let statement = Statement(
      """
      SELECT event, hour, count FROM hourly_counts
      WHERE event IN ('sent', 'failed') AND subject = $1 AND detail = '' AND hour IN ($list)
      """, .text("\(server)"), list: (0..<hours).map { .integer(first + Int64($0)) })
    var all = (0..<hours).map { ServerHour(start: Self.start(of: first + Int64($0))) }
    for row in try await database.query(statement) {
      all[Int(try row.int64("hour") - first)].add(try row.text("event"), try row.int64("count"))
    }
    return all
  }

  /// Refused calls of a chat server to register devices.
  package struct RefusedRegistrations: Sendable, Hashable {
    package let refusal: RegistrationRefusal
    package let count: Int64
    /// The beginning of the last hour that had some (UTC).
    package let latest: Date
  }

  /// Refused registrations of a chat server in the last hours, the latest first.
  package func refusedRegistrations(ofServer server: Int64, hours: Int) async throws -> [RefusedRegistrations]
  {
    let statement = Statement(
      """
      SELECT detail, CAST(SUM(count) AS BIGINT) AS total, MAX(hour) AS latest FROM hourly_counts
      WHERE event = 'registration_refused' AND subject = $1 AND hour IN ($list)
      GROUP BY detail ORDER BY MAX(hour) DESC, detail
      """, .text("\(server)"), list: (0..<hours).map { .integer(first(of: hours) + Int64($0)) })
    return try await database.query(statement).map { row in
      RefusedRegistrations(
        refusal: RegistrationRefusal(rawValue: try row.text("detail")) ?? .other,
        count: try row.int64("total"),
        latest: Self.start(of: try row.int64("latest")))
    }
  }

  /// The notifications that each chat server has sent in the last hours, by the id of its row.
  package func servers(hours: Int) async throws -> [Int64: ServerHour] {
    let start = Self.start(of: first(of: hours))
    return try await totals(of: ["sent", "failed"], hours: hours).reduce(into: [:]) { servers, total in
      guard let server = Int64(total.subject) else { return }
      servers[server, default: ServerHour(start: start)].add(total.event, total.count)
    }
  }

  /// Number of registrations with each bouncer key in the last hours.
  package func registrationsByKey(hours: Int) async throws -> [String: Int64] {
    try await totals(of: ["registered"], hours: hours).reduce(into: [:]) { $0[$1.subject] = $1.count }
  }

  private func totals(of events: [String], hours: Int) async throws -> [(
    event: String, subject: String, count: Int64
  )] {
    let statement = Statement(
      """
      SELECT event, subject, CAST(SUM(count) AS BIGINT) AS total FROM hourly_counts
      WHERE hour >= $1 AND event IN ($list) GROUP BY event, subject
      """, .integer(first(of: hours)), list: events.map { .text($0) })
    return try await database.query(statement).map {
      (try $0.text("event"), try $0.text("subject"), try $0.int64("total"))
    }
  }

  /// Removes a bounded number of counts that are older than 90 days, or 14 days for chat servers.
  package func removeOld(limit: Int) async throws -> Int {
    let hour = Self.hour(of: now())
    let statement = Statement(
      """
      DELETE FROM hourly_counts WHERE (event, hour, subject, detail) IN (
        SELECT event, hour, subject, detail FROM hourly_counts
        WHERE (event IN ('sent', 'failed', 'registration_refused') AND hour < $1)
          OR (event IN ('accepted', 'refused', 'postponed', 'given_up', 'registered') AND hour < $2)
        LIMIT $3)
      """, .integer(hour - Self.keptServerHours), .integer(hour - Self.keptHours), .integer(Int64(limit)))
    return try await database.write { try $0.run(statement) }
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
      case .registrationRefused(let server, let refusal):
        ("registration_refused", "\(server)", refusal.rawValue)
      }
    self.init(event: name, hour: hour, subject: subject, detail: detail)
  }

  /// The statement adds to the stored count, because other nodes count the same events.
  func addition(of count: Int64) -> Statement {
    Statement(
      """
      INSERT INTO hourly_counts (event, hour, subject, detail, count) VALUES ($1, $2, $3, $4, $5)
      ON CONFLICT (event, hour, subject, detail) DO UPDATE SET count = hourly_counts.count + excluded.count
      """, .text(event), .integer(hour), .text(subject), .text(detail), .integer(count))
  }
}
