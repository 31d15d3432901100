import SQL

/// Stand-ins with wrong answers to chat servers.
extension StandIn {
  static let replies: [StandIn] = [
    replying("register-fails-hard") { endpoint, answer in
      guard endpoint == "push/e2ee/register", answer?.status == 429 else { return answer }
      return Answer(status: 503, text: "")
    },
    replying("register-forgets") { endpoint, answer in
      guard endpoint == "push/e2ee/register", let answer, answer.status != 200 else { return answer }
      return Answer(status: 200, text: #"{"result":"success","msg":""}"#)
    },
    replying("deaths-are-not-told") { endpoint, answer in
      guard endpoint == "push/e2ee/notify", let answer else { return answer }
      return Answer(
        status: answer.status, text: answer.text.replacing("delete_token_ids", with: "nothing"))
    },
    replying("promises-too-much") { endpoint, answer in
      guard endpoint.hasSuffix("notify"), answer?.status == 503 else { return answer }
      return Answer(status: 200, text: #"{"result":"success","msg":""}"#)
    },
  ]

  private static func replying(
    _ name: String, _ reply: @escaping @Sendable (String, Answer?) -> Answer?
  ) -> StandIn {
    StandIn(name) { standIn in standIn.reply = reply }
  }
}

/// Stand-ins for a faulty push proxy.
extension StandIn {
  static let nextcloud: [StandIn] = [
    // Removing one registration removes all: the statement has no condition.
    StandIn(
      "proxy-removes-all", replacing: "WHERE device_identifier = $1 AND user_key = $2",
      by: "WHERE LENGTH($1) + LENGTH($2) > 0 AND wire = 3",
      where: { $0.hasPrefix("DELETE FROM registrations") }),
    // A renewal with a new token keeps the old one.
    StandIn(
      "proxy-keeps-token", replacing: "token_sha512 = $3, token = $4,", by: "",
      where: { $0.contains("UPDATE registrations") }),
    // An old answer of a provider ends a registration that was renewed since.
    StandIn(
      "proxy-ends-the-renewed", replacing: "WHERE id = $1 AND registered_at = $2",
      by: "WHERE id = $1 AND $2 > 0",
      where: { $0.hasPrefix("SELECT CASE WHEN elsewhere IS NULL THEN token_hash") }),
    StandIn("proxy-tells-no-deaths") { standIn in
      // A server is never told which devices are unknown.
      standIn.reply = { endpoint, answer in
        guard endpoint == "notifications", let answer else { return answer }
        return Answer(status: answer.status, text: answer.text.replacing("unknown", with: "nothing"))
      }
    },
    StandIn("proxy-sends-all") { standIn in
      // Everything counts as sent.
      standIn.reply = { endpoint, answer in
        guard endpoint == "notifications", answer?.status == 200, answer?.text.contains("[]") == true else {
          return answer
        }
        return Answer(status: 200, text: #"{"unknown":[],"failed":0}"#)
      }
    },
  ]
}

/// Stand-ins for a faulty chat server.
extension StandIn {
  static let chat: [StandIn] = [
    // A new push key is not stored: notifications carry its id but are sealed with the former key.
    StandIn(
      "chat-keeps-key", replacing: "push_key = COALESCE($2, push_key)",
      by: "push_key = COALESCE(push_key, $2)",
      where: { $0.hasPrefix("UPDATE devices") }),
    StandIn("chat-forgets-registrations") { standIn in
      // A pending registration is removed as soon as a node takes it, before the bouncer has answered.
      standIn.after { statement, rows, connection, _ in
        guard statement.sql.hasPrefix("UPDATE device_registrations"), statement.sql.contains("RETURNING")
        else { return }
        for row in rows {
          try connection.run(
            Statement(
              "DELETE FROM device_registrations WHERE device_id = $1", .integer(try row.int64("device_id"))))
        }
      }
    },
    // The bouncer's report that a token is dead is ignored.
    StandIn(
      "chat-hears-no-deaths", replacing: "token_id = $4,", by: "token_id = COALESCE($4, token_id),",
      where: { $0.hasPrefix("UPDATE devices") }),
  ]
}
