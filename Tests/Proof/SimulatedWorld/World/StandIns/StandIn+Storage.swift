import SQL

/// Stand-ins with faults in storage.
extension StandIn {
  static let storage: [StandIn] = [
    .forgetfulOutbox, .outboxInMemory, .endlessLease, .shortLease, .expiresTheRenewed, .neverRevives,
    .forgetsRemovals,
    .legacyStays, .keepsInClear, .neverHolds,
  ]

  @Sendable private static func isLease(_ sql: String) -> Bool {
    sql.hasPrefix("UPDATE outbox SET due_at = $2, attempts")
  }

  /// Removes an outbox entry when it is taken instead of when the provider has answered, so that a crash
  /// loses it.
  private static let forgetfulOutbox = StandIn("forgetful-outbox") { standIn in
    standIn.after { statement, rows, connection, _ in
      guard isLease(statement.sql) else { return }
      for row in rows {
        try connection.run(Statement("DELETE FROM outbox WHERE id = $1", .integer(try row.int64("id"))))
      }
    }
  }

  /// Keeps the outbox in memory.
  private static let outboxInMemory = StandIn("outbox-in-memory") { standIn in
    standIn.killed = { world in
      try? world.server.transaction(.write) { try $0.run(Statement("DELETE FROM outbox")) }
    }
  }

  /// A lease that outlives the node that has it by a day.
  private static let endlessLease = StandIn("endless-lease") { standIn in
    standIn.alter { statement in
      let sql =
        isLease(statement.sql)
        ? statement.sql.replacing(
          "SET due_at = $2, attempts", with: "SET due_at = $2 + 86400000, attempts")
        // The lease holder can still end it.
        : statement.sql.replacing(
          "AND attempts = $2 AND due_at = $3", with: "AND attempts = $2 AND $3 > 0")
      return Statement(sql, arguments: statement.arguments)
    }
  }

  /// A lease that ends while its try is under way.
  private static let shortLease = StandIn(
    "short-lease", replacing: "SET due_at = $2, attempts", by: "SET due_at = $1 + 0 * $2, attempts",
    where: isLease)

  /// Ends a registration without comparing: one that was renewed after the push ends as well.
  private static let expiresTheRenewed = StandIn(
    "compares-nothing", replacing: "AND registered_at = $2", by: "AND $2 IS NOT NULL",
    where: { $0.hasPrefix("SELECT CASE WHEN elsewhere IS NULL THEN token_hash") })

  /// An expired registration that is registered again stays expired, as at Zulip's own bouncer.
  private static let neverRevives = StandIn(
    "never-revives", replacing: "ended_at = NULL, ", by: "",
    where: { $0.contains("INSERT INTO registrations\n  (wire, realm_id") })

  /// Does not remove entries that were answered.
  private static let forgetsRemovals = StandIn("forgets-removals") { standIn in
    standIn.alter { $0.sql.hasPrefix("DELETE FROM outbox WHERE id = $1 AND attempts") ? nil : $0 }
  }

  /// Legacy registrations of devices that have an encrypted one stay, as at Zulip's own bouncer.
  private static let legacyStays = StandIn(
    "legacy-stays", replacing: "ON e.token_hash = l.token_hash",
    by: "ON FALSE AND e.token_hash = l.token_hash",
    where: { $0.contains("JOIN registrations e") })

  /// Writes tokens as they are.
  private static let keepsInClear = StandIn("keeps-in-clear") { standIn in
    standIn.after { statement, _, connection, world in
      guard statement.sql.contains("INSERT INTO registrations\n  (wire, realm_id"),
        let token = world.phones.first?.token
      else { return }
      try connection.run(Statement("UPDATE registrations SET failure = $1", .text(token)))
    }
  }

  /// Ends a registration at the first report, however many tokens are reported as dead at once.
  static let neverHolds = StandIn("never-holds") { standIn in
    standIn.after { statement, _, connection, _ in
      guard statement.sql.hasPrefix("UPDATE registrations SET dead_since = COALESCE") else { return }
      try connection.run(
        Statement("UPDATE registrations SET ended_at = 1 WHERE id = $1", statement.arguments[0]))
    }
  }
}
