import HTTP
import SQL

/// Stand-ins for a faulty built-in Nextcloud server.
extension StandIn {
  static let nextcloudServer: [StandIn] = [
    .forgetfulQueue, .endlessPushLease,
    // Another node takes a push that is on its way.
    StandIn(
      "nextcloud-short-lease", replacing: "SET due_at = $2, attempts",
      by: "SET due_at = $1 + 0 * $2, attempts",
      where: isPushLease),
    // A proxy that is away is asked again at once.
    StandIn(
      "nextcloud-hears-no-pause", replacing: "SET due_at = $4", by: "SET due_at = 0 * $4",
      where: { $0.hasPrefix("UPDATE nextcloud_pushes") }),
    // Pushes that the proxy has taken stay in the queue.
    StandIn("nextcloud-forgets-removals") { standIn in
      standIn.alter { $0.sql.hasPrefix("DELETE FROM nextcloud_pushes WHERE id IN") ? nil : $0 }
    },
    // A device that the proxy does not know stays.
    StandIn("nextcloud-ignores-unknown") { standIn in
      standIn.alter {
        $0.sql.hasPrefix("DELETE FROM nextcloud_registrations WHERE id = $1 AND registered_at") ? nil : $0
      }
    },
    // Signing out removes nothing.
    StandIn("nextcloud-keeps-who-has-left") { standIn in
      standIn.alter {
        $0.sql.hasPrefix("DELETE FROM nextcloud_registrations WHERE app_password_id")
          || $0.sql.hasPrefix("DELETE FROM app_passwords") ? nil : $0
      }
    },
    // A phone that signs in anew with its token stays registered for the former login, too.
    StandIn("nextcloud-keeps-former-logins") { standIn in
      standIn.alter {
        $0.sql.hasPrefix("DELETE FROM nextcloud_registrations\nWHERE user_id") ? nil : $0
      }
    },
    // Taking one notification back drops all that wait for the user.
    StandIn("nextcloud-takes-all-back") { standIn in
      standIn.alter { statement in
        guard statement.sql.hasPrefix("DELETE FROM nextcloud_pushes WHERE registration_id IN"),
          let user = statement.arguments.first, let end = statement.sql.firstRange(of: " AND nid IN")
        else { return statement }
        return Statement(String(statement.sql[..<end.lowerBound]), user)
      }
    },
    // A proxy's outage counts as a success.
    StandIn("nextcloud-outage-is-success") { standIn in
      standIn.proxyAnswer = { _, answer in
        answer.map { $0.status < 500 ? $0 : Answer(status: 200, text: #"{"unknown":[],"failed":0}"#) }
      }
    },
    // A push that has failed ends its device.
    StandIn("nextcloud-failed-is-unknown") { standIn in
      standIn.proxyAnswer = { devices, answer in
        guard let answer, let failed = answer.json["failed"]?.integer, failed > 0 else { return answer }
        return Answer(
          status: 200, text: JSON.object(["unknown": .array(devices.map(JSON.string)), "failed": 1]).text)
      }
    },
  ]

  @Sendable private static func isPushLease(_ sql: String) -> Bool {
    sql.hasPrefix("UPDATE nextcloud_pushes SET due_at = $2, attempts")
  }

  /// Removes a push when it is taken instead of when the proxy has answered.
  private static let forgetfulQueue = StandIn("nextcloud-forgetful-queue") { standIn in
    standIn.after { statement, rows, connection, _ in
      guard isPushLease(statement.sql) else { return }
      for row in rows {
        try connection.run(
          Statement("DELETE FROM nextcloud_pushes WHERE id = $1", .integer(try row.int64("id"))))
      }
    }
  }

  /// A lease that outlives the node that has it by a day.
  private static let endlessPushLease = StandIn("nextcloud-endless-lease") { standIn in
    standIn.alter { statement in
      guard statement.sql.hasPrefix("UPDATE nextcloud_pushes") else { return statement }
      let sql =
        isPushLease(statement.sql)
        ? statement.sql.replacing("SET due_at = $2, attempts", with: "SET due_at = $2 + 86400000, attempts")
        // The lease holder can still end it.
        : statement.sql.replacing("AND due_at = $3", with: "AND $3 > 0")
      return Statement(sql, arguments: statement.arguments)
    }
  }
}
