import HTTP
import HTTPClient
import NIOCore
import Providers
import SQL
import Sealing

/// Stand-ins that are wrong about the upstream bouncer.
extension StandIn {
  static let upstream: [StandIn] = [
    // What waits for the upstream bouncer is removed when it is taken.
    StandIn("upstream-outbox-forgets") { standIn in
      standIn.after { statement, rows, connection, _ in
        guard statement.sql.hasPrefix("UPDATE outbox SET due_at = $2, attempts"),
          statement.arguments.contains(.text("upstream"))
        else { return }
        for row in rows {
          try connection.run(Statement("DELETE FROM outbox WHERE id = $1", .integer(try row.int64("id"))))
        }
      }
    },
    StandIn("upstream-failure-is-success") { standIn in
      standIn.upstreamAnswer = { answer, _ in
        guard case .success(let response) = answer, response.status != 200 else { return answer }
        return .success(
          .vendor(
            200,
            #"{"result":"success","apple_successfully_sent_count":0,"android_successfully_sent_count":0,"delete_token_ids":[]}"#
          ))
      }
    },
    StandIn("upstream-tells-no-deaths") { standIn in
      standIn.upstreamAnswer = { answer, _ in
        guard case .success(var response) = answer else { return answer }
        let text = String(buffer: response.body)
        guard let names = text.between(#""delete_token_ids":["#, "]"), !names.isEmpty else { return answer }
        response.body = ByteBuffer(string: text.replacing(names, with: ""))
        return .success(response)
      }
    },
    // Every id that is named as gone ends, whether it was asked about or not.
    StandIn("upstream-names-others") { standIn in
      standIn.upstreamAnswer = { answer, world in
        guard case .success(let response) = answer,
          let gone = (try? JSON.parse(response.body))?["delete_token_ids"]?.strings
        else { return answer }
        try? world.server.transaction(.write) { connection in
          for id in gone.compactMap({ TokenID(base64: $0) }) {
            try connection.run(
              Statement(
                "UPDATE registrations SET ended_at = 1 WHERE token_id = $1", .integer(id.storage)))
          }
        }
        return answer
      }
    },
    // A device that it does not have is dead, whoever's it is.
    StandIn(
      "upstream-ends-tokens", replacing: "CASE WHEN elsewhere IS NULL THEN token_hash ELSE 0 END",
      by: "token_hash",
      where: { $0.contains("FROM registrations WHERE id = $1 AND registered_at = $2") }),
    // All old apps with Google's tokens are the vendor's.
    StandIn(
      "upstream-gets-all",
      replacing: "COALESCE(l.elsewhere, CASE WHEN l.delivered_at IS NOT NULL THEN 2 END)",
      by: "0",
      where: { $0.contains("LEFT JOIN registrations e") }),
    // The upstream bouncer is never told that an old app is gone.
    StandIn("upstream-hears-no-updates") { standIn in
      standIn.alter { $0.sql.contains("INSERT INTO upstream_unregistrations") ? nil : $0 }
    },
    // A phone of the vendor's is never registered anew.
    StandIn(
      "upstream-never-revives", replacing: "ended_at = NULL,", by: "",
      where: { $0.contains("VALUES (1, $1, $2, 4, 0, 1, $3)") }),
  ]
}
