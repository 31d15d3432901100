import Providers
import Registrations
import SQL
import Sealing

/// Stand-ins that mix tenants up.
extension StandIn {
  static let tenants: [StandIn] = [
    // Removing a user's token at one server removes it at all of them.
    StandIn(
      "unregister-forgets-server", replacing: "WHERE server_id = $1 AND (user_id = $2",
      by: "WHERE wire = 2 AND $1 > 0 AND (user_id = $2",
      where: { $0.hasPrefix("DELETE FROM registrations") }),
    // Signing a user's old apps out signs all users' out.
    StandIn("unregister-all-is-all") { standIn in
      standIn.alter { statement in
        guard statement.sql.hasPrefix("DELETE FROM registrations WHERE server_id = $1 AND (user_id = $2"),
          !statement.sql.contains("token_hash")
        else { return statement }
        return Statement("DELETE FROM registrations WHERE server_id = $1", statement.arguments[0])
      }
    },
    // An old app that was removed stays.
    StandIn("unregister-does-nothing") { standIn in
      standIn.alter {
        $0.sql.hasPrefix("DELETE FROM registrations WHERE server_id = $1 AND (user_id") ? nil : $0
      }
    },
    // A user's devices are those of all servers' users of that name.
    StandIn(
      "reach-forgets-server", replacing: "WHERE l.server_id = $1 AND (l.user_id",
      by: "WHERE l.wire = 2 AND $1 > 0 AND (l.user_id"),
    // What an encrypted registration in one realm replaces is replaced in all.
    StandIn(
      "encrypted-in-any-realm", replacing: "AND +e.realm_id = COALESCE(l.realm_id, $4)",
      by: "AND COALESCE($4, 1) > 0"),
    // All devices are taken for the first app's.
    StandIn("one-app-for-all") { standIn in
      standIn.alter { statement in
        guard statement.sql.hasPrefix("INSERT INTO registrations") else { return statement }
        let arguments = statement.arguments.map { value in
          value == .text(World.secondTopic) ? .text(World.topic) : value
        }
        return Statement(statement.sql, arguments: arguments)
      }
    },
    // Whether a server may call is remembered for twenty seconds.
    StandIn("stale-servers", remembering: "FROM remote_servers WHERE uuid ="),
    // Whose a realm is is remembered for twenty seconds.
    StandIn("stale-realms", remembering: "SELECT id, server_id FROM remote_realms WHERE uuid ="),
    // Messages go to endpoints that they are not encrypted for.
    StandIn("mixes-endpoints") { standIn in
      standIn.request = { request, world in
        var request = request
        request.path = world.pushService.otherPath(than: request.path) ?? request.path
        return request
      }
    },
    // Requests to push services are signed with another key.
    StandIn("signs-with-another-key") { standIn in
      standIn.request = { request, _ in
        var request = request
        request.authorization = request.authorization.replacing(PushService.vapid.publicKey, with: "BA")
        return request
      }
    },
    // A dead token is dead at the chat server that hears of it, and nowhere else.
    StandIn("dead-at-one-only", replacing: "OR token_hash = $2 AND", by: "OR $2 = 1 AND"),
    // What waits for a registration that another one replaces is dropped.
    StandIn("drops-what-waits") { standIn in
      standIn.alter { statement in
        statement.sql.hasPrefix("SELECT id, push FROM outbox WHERE registration_id") ? nil : statement
      }
    },
    // A legacy registration that is renewed counts as old.
    StandIn(
      "renews-nothing", replacing: "registered_at = excluded.registered_at, ", by: "",
      where: { $0.hasPrefix("INSERT INTO registrations") && $0.contains("ON CONFLICT (server_id") }),
    // A realm stays with its server for ever.
    StandIn(
      "keeps-realms", replacing: "WHERE id = $1 AND server_id = $12", by: "WHERE id = $1 AND server_id = -$12"
    ),
    // All realms are the impostor's.
    StandIn("realms-are-everybodys") { standIn in
      standIn.connection = { connection, world in
        AlteredConnection(
          connection: connection,
          alter: { statement in
            guard let impostor = world.impostor, impostor.calls > 0 else { return statement }
            return Statement(
              statement.sql.replacing(
                "SELECT id, server_id FROM remote_realms",
                with: "SELECT id, \(impostor.id) AS server_id FROM remote_realms"),
              arguments: statement.arguments)
          })
      }
    },
    // At the push proxy, what the impostor has signed counts as signed by everybody.
    StandIn("proxy-checks-no-signature") { standIn in
      standIn.connection = { connection, world in
        AlteredConnection(
          connection: connection,
          read: { statement, rows in
            guard world.impostor?.isAtProxy == true,
              statement.sql.hasPrefix("SELECT id, registered_at, device_identifier, user_key")
            else { return rows }
            return rows.map(Self.asImpostors)
          })
      }
    },
    // At the push proxy, whoever knows a device's identifier may remove it.
    StandIn(
      "proxy-forgets-key", replacing: "device_identifier = $1 AND user_key = $2",
      by: "device_identifier = $1 AND LENGTH($2) > 0", where: { $0.hasPrefix("DELETE FROM registrations") }),
    // Changes of the key folder are not heeded.
    StandIn("keeps-credentials") { $0.keepsCredentials = true },
    // A former key is worth nothing as soon as there is another.
    StandIn(
      "no-grace", replacing: "previous_key_until = $3", by: "previous_key_until = NULLIF($3, $3)"),
    // What is registered with a realm ends when it moves, although it is the same realm.
    StandIn("moves-without-registrations") { standIn in
      standIn.after { statement, _, connection, _ in
        guard statement.sql.hasPrefix("UPDATE remote_realms SET"), statement.sql.contains("server_id = $9")
        else { return }
        try connection.run(
          Statement("DELETE FROM registrations WHERE realm_id = $1", statement.arguments[0]))
      }
    },
  ]

  /// A row of a device at the push proxy as if the impostor's key had been registered with it.
  @Sendable private static func asImpostors(_ row: Row) -> Row {
    let (storage, key) = (StorageKey(bytes: Node.storageKey), Value.bytes(Stranger.key.publicKey.der))
    guard let sealed = try? row.bytes("token"), let identifier = try? row.value("device_identifier"),
      let userKey = try? row.value("user_key"),
      let token = storage.open(sealed, at: .token(identifier: identifier, userKey: userKey))
    else { return row }
    let changed = [
      "token": Value.bytes(storage.seal(token, at: .token(identifier: identifier, userKey: key))),
      "user_key": key,
    ]
    return Row(row.columns, values: zip(row.columns.names, row.values).map { changed[$0] ?? $1 })
  }

  /// One that remembers what it has read.
  private init(_ name: String, remembering part: String) {
    self.init(name) { standIn in
      standIn.connection = { RememberingConnection(connection: $0, part: part, world: $1) }
    }
  }
}

/// A connection that answers some queries with what they gave up to twenty seconds ago.
private struct RememberingConnection: Connection {
  let connection: any Connection
  /// What the queries have in common.
  let part: String
  unowned let world: World

  func query(_ statement: Statement) throws -> [Row] {
    guard statement.sql.contains(part) else { return try connection.query(statement) }
    let name = "\(statement.sql) \(statement.arguments)"
    if let known = world.remembered[name], world.time - known.time < 20 { return known.rows }
    let rows = try connection.query(statement)
    world.remembered[name] = (rows, world.time)
    return rows
  }

  func run(_ statement: Statement) throws -> Int { try connection.run(statement) }
  func runScript(_ sql: String) throws { try connection.runScript(sql) }
  func lockSchema() throws { try connection.lockSchema() }
}
