import Foundation
import HTTP
import Registrations
import SQL

extension Devices {
  /// Maximum number of event queues of a user; for one more, the one longest unused is removed.
  static let maximumQueues = 100
  /// Seconds after which an unused queue is removed, as at Zulip's server.
  static let queueLifetime: TimeInterval = 600
  /// Seconds after which events are removed; every live queue has seen them.
  static let eventLifetime: TimeInterval = 86_400
  /// Maximum number of events in an answer.
  static let eventsAtOnce = 1000

  /// Opens an event queue for a client; returns its id and the present state.
  ///
  /// - Parameter followsDevices: whether the client wants events of its user's devices.
  func openQueue(user: Int64, followsDevices: Bool) async throws -> (
    id: String, devices: [Device], lastEvent: Int64
  ) {
    let id = UUID().canonical
    let now = now()
    // The queue is stored first, so that an event in between is in both and not in neither.
    try await database.write { connection in
      try connection.run(
        Statement(
          "INSERT INTO event_queues (id, user_id, follows_devices, seen_at) VALUES ($1, $2, $3, $4)",
          .text(id), .integer(user), .flag(followsDevices), .integer(now.milliseconds)))
      try connection.run(
        Statement(
          """
          DELETE FROM event_queues WHERE id IN (
            SELECT id FROM event_queues WHERE user_id = $1 ORDER BY seen_at DESC LIMIT 1000 OFFSET $2)
          """, .integer(user), .integer(Int64(Self.maximumQueues))))
    }
    let (devices, lastEvent) = try await snapshot(user: user)
    return (id, devices, lastEvent)
  }

  /// Closes an event queue; false if the user has no such queue.
  func closeQueue(_ id: String, user: Int64) async throws -> Bool {
    let statement = Statement(
      "DELETE FROM event_queues WHERE id = $1 AND user_id = $2", .text(id), .integer(user))
    let isClosed = try await database.write { try $0.run(statement) } > 0
    if isClosed { changed(user) }
    return isClosed
  }

  /// A user's events after a number, in order, as JSON for clients; nil if there is no such queue, or it has
  /// expired.
  func events(queue id: String, user: Int64, after number: Int64) async throws -> [JSON]? {
    let now = now()
    let found = try await database.read { connection -> (seenAt: Date, rows: [Row])? in
      guard
        let queue = try connection.query(
          Statement(
            "SELECT seen_at, follows_devices FROM event_queues WHERE id = $1 AND user_id = $2 AND seen_at > $3",
            .text(id),
            .integer(user), .integer((now - Self.queueLifetime).milliseconds))
        ).first
      else { return nil }
      let seenAt = try queue.date("seen_at")
      guard try queue.flag("follows_devices") else { return (seenAt, []) }
      let rows = try connection.query(
        Statement(
          """
          SELECT event FROM device_events WHERE user_id = $1 AND number > $2 ORDER BY number LIMIT $3
          """, .integer(user), .integer(number), .integer(Int64(Self.eventsAtOnce))))
      return (seenAt, rows)
    }
    guard let (seenAt, rows) = found else { return nil }
    // The time of use is not written for every call, since clients call every minute.
    if now.timeIntervalSince(seenAt) > Self.queueLifetime / 10 {
      _ = try await database.execute(
        Statement("UPDATE event_queues SET seen_at = $2 WHERE id = $1", .text(id), .integer(now.milliseconds))
      )
    }
    return try rows.map { try JSON.parse($0.text("event")) }
  }

  /// The number of the latest event of each of these users; users that are gone are left out.
  func lastEvents(of users: [Int64]) async throws -> [Int64: Int64] {
    let lists = stride(from: 0, to: users.count, by: 16_384).map {
      Array(users[$0..<min($0 + 16_384, users.count)])
    }
    var latest: [Int64: Int64] = [:]
    for list in lists {
      let statement = Statement(
        "SELECT id, last_event FROM users WHERE id IN ($list)", list: list.map { .integer($0) })
      for row in try await database.query(statement) {
        latest[try row.int64("id")] = try row.int64("last_event")
      }
    }
    return latest
  }

  /// Removes a bounded number of old events and queues.
  ///
  /// - Returns: the number of events; fewer than `limit` means that none are left.
  package func removeOldEvents(limit: Int = 1000) async throws -> Int {
    let now = now()
    return try await database.write { connection in
      try connection.run(
        Statement(
          "DELETE FROM event_queues WHERE seen_at < $1",
          .integer((now - Self.queueLifetime).milliseconds)))
      return try connection.run(
        Statement(
          """
          DELETE FROM device_events WHERE (user_id, number) IN (
            SELECT user_id, number FROM device_events WHERE created_at < $1 LIMIT $2)
          """, .integer((now - Self.eventLifetime).milliseconds), .integer(Int64(limit))))
    }
  }
}
