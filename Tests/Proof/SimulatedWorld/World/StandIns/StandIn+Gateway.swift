import SQL

/// Stand-ins for a faulty Web Push gateway.
extension StandIn {
  static let gateway: [StandIn] = [
    // A message replaces one of the same topic that waits, whoever's it is.
    keeping("gateway-topic-is-everybodys") { values in
      if values[5] != .null { values[5] = .integer(1) }
    },
    // What waits is sent for an hour, whatever its TTL.
    keeping("gateway-forgets-its-time") { values in
      guard case .integer(let now) = values[6] else { return }
      values[8] = .integer(now + 3_600_000)
    },
    // A sender is told 201 before its message is stored.
    StandIn("gateway-promises-too-much") { standIn in
      standIn.reply = { endpoint, answer in
        guard endpoint == "gateway/push", let answer, answer.status == 503 else { return answer }
        return Answer(status: 201, text: "")
      }
    },
    // A renewal with a new token keeps the old one.
    StandIn(
      "gateway-keeps-token", replacing: "token = $3, token_hash = $4,", by: "",
      where: { $0.hasPrefix("UPDATE registrations") }),
    // A body that does not fit is gone at once.
    StandIn(
      "gateway-forgets-bodies", replacing: "$7, $8, $9", by: "$7, 0 * $8, $9",
      where: { $0.hasPrefix("INSERT INTO gateway_messages") }),
    // An app is told of everybody's bodies.
    StandIn(
      "gateway-lists-everybodys", replacing: "WHERE subscription = $1 ORDER BY", by: "WHERE $1 = $1 ORDER BY",
      where: { $0.hasPrefix("SELECT id, encoding, expires_at") }),
    // The newest body is not listed.
    StandIn(
      "gateway-lists-less", replacing: "WHERE subscription = $1",
      by:
        "WHERE subscription = $1 AND number < (SELECT MAX(number) FROM gateway_messages WHERE subscription = $1)",
      where: { $0.hasPrefix("SELECT id, encoding, expires_at") }),
    // A sender is never told that a subscription has ended.
    StandIn("gateway-tells-no-deaths") { standIn in
      standIn.reply = { endpoint, answer in
        guard endpoint == "gateway/push", let answer, answer.status == 410 else { return answer }
        return Answer(status: 503, text: "")
      }
    },
    // A sender is told so by mistake, while its message cannot be stored.
    StandIn("gateway-trouble-is-death") { standIn in
      standIn.reply = { endpoint, answer in
        guard endpoint == "gateway/push", let answer, answer.status == 503 else { return answer }
        return Answer(status: 410, text: "")
      }
    },
  ]

  /// Changes the values of what is stored in the outbox.
  private static func keeping(_ name: String, _ change: @escaping @Sendable (inout [Value]) -> Void)
    -> StandIn
  {
    StandIn(name) { standIn in
      standIn.alter { statement in
        var values = statement.arguments
        guard statement.sql.hasPrefix("INSERT INTO outbox\n"), values[1] == .integer(5) else {
          return statement
        }
        change(&values)
        return Statement(statement.sql, arguments: values)
      }
    }
  }
}
