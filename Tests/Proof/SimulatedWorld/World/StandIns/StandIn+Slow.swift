import HTTPClient
import NIOCore
import NIOHPACK
import Providers
import SQL

/// Stand-ins that are wrong about time.
extension StandIn {
  static let slow: [StandIn] = [
    // A guard that forgets within seconds: what it has held back for the first time ends, unless many have died just now.
    StandIn("forgets-a-burst") { standIn in
      standIn.after { statement, rows, connection, _ in
        guard statement.sql.hasPrefix("UPDATE registrations SET dead_since = COALESCE"), !rows.isEmpty else {
          return
        }
        try connection.run(
          Statement(
            """
            UPDATE registrations SET ended_at = 1 WHERE id = $1 AND dead_since = $2 AND 20 >= (
              SELECT COUNT(*) FROM registrations WHERE COALESCE(ended_at, dead_since) > $2 - 6000)
            """, statement.arguments[0], statement.arguments[5]))
      }
    },
    reading("hears-no-pause") { answer in
      guard case .success(var response) = answer, response.headers.contains(name: "retry-after") else {
        return answer
      }
      response.headers.remove(name: "retry-after")
      return .success(response)
    },
    // A breaker that stays open for long after an outage.
    reading("pauses-the-route") { answer in
      guard case .success(var response) = answer, response.status >= 500 else { return answer }
      response.headers.replaceOrAdd(name: "retry-after", value: "600")
      return .success(response)
    },
    // A refusal is believed of a route that has delivered nothing.
    reading("doubts-nothing") { answer in
      guard case .success(let response) = answer else { return answer }
      let body = String(buffer: response.body)
      return ["BadDeviceToken", "SENDER_ID_MISMATCH"].contains(where: body.contains) ? dead(response) : answer
    },
    // What is refused for good is tried again.
    reading("tries-the-refused") { answer in
      guard case .success(let response) = answer, response.status == 400 || response.status == 403 else {
        return answer
      }
      return .failure(.connectionLost)
    },
    StandIn("trusts-any-clock") { standIn in standIn.trustsAnyClock = true },
    // Each further try is half an hour late.
    StandIn(
      "pauses-too-long", replacing: "SET due_at = $4", by: "SET due_at = $4 + 1800000",
      where: { $0.hasPrefix("UPDATE outbox") }),
    // A lease that is over still settles the entry, which another node has taken over.
    StandIn(
      "settles-what-others-have", replacing: "AND attempts = $2 AND due_at = $3",
      by: "AND $2 > 0 AND $3 > 0", where: { $0.contains("outbox") }),
    // What a clock that was ahead has postponed stays postponed.
    StandIn("stays-postponed") { standIn in
      standIn.alter {
        $0.sql.hasPrefix("UPDATE outbox SET due_at = $1 WHERE") && $0.sql.hasSuffix("due_at > $2") ? nil : $0
      }
    },
  ]
}
