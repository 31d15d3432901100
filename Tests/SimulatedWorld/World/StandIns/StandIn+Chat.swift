import SQL

/// Chat servers as they must not be.
extension StandIn {
  static let chat: [StandIn] = [
    // A new key is not kept: its id is told with what is sealed with the former.
    StandIn(
      "chat-keeps-key", replacing: "push_key = COALESCE($2, push_key)",
      by: "push_key = COALESCE(push_key, $2)",
      where: { $0.hasPrefix("UPDATE devices") }),
    {
      // What is on its way to the bouncer is forgotten as soon as somebody takes it there.
      var standIn = StandIn(name: "chat-forgets-registrations")
      standIn.connection = { connection, _ in
        AlteredConnection(
          connection: connection,
          afterwards: { statement, rows, connection in
            guard statement.sql.hasPrefix("UPDATE device_registrations"), statement.sql.contains("RETURNING")
            else { return }
            for row in rows {
              try connection.run(
                Statement(
                  "DELETE FROM device_registrations WHERE device_id = $1", .integer(try row.int64(0))))
            }
          })
      }
      return standIn
    }(),
    // The bouncer's word that a token is dead is not taken.
    StandIn(
      "chat-hears-no-deaths", replacing: "token_id = $4,", by: "token_id = COALESCE($4, token_id),",
      where: { $0.hasPrefix("UPDATE devices") }),
  ]
}
