import SQL

extension OutcomeRecorder {
  /// The hostnames of the chat servers that registrations belong to; those of the Nextcloud proxy have none.
  package func hostnames(
    of registrations: [RegistrationReference]
  ) async throws -> [RegistrationReference.Row: String] {
    let statements = Dictionary(grouping: registrations, by: \.kind).compactMap { kind, registrations in
      kind.servers.map {
        (kind: kind, statement: Statement($0, list: registrations.map { .integer($0.id) }))
      }
    }
    guard !statements.isEmpty else { return [:] }
    return try await database.read { connection in
      var hostnames: [RegistrationReference.Row: String] = [:]
      for (kind, statement) in statements {
        for row in try connection.query(statement) {
          hostnames[.init(kind: kind, id: try row.int64(0))] = try row.text(1)
        }
      }
      return hostnames
    }
  }
}

extension RegistrationReference.Kind {
  /// Which row is of which server.
  fileprivate var servers: String? {
    switch self {
    case .e2ee:
      """
      SELECT e.id, s.hostname FROM e2ee_registrations e JOIN remote_realms r ON r.id = e.realm_id
        JOIN remote_servers s ON s.id = r.server_id WHERE e.id IN ($list)
      """
    case .legacy:
      """
      SELECT l.id, s.hostname FROM legacy_registrations l JOIN remote_servers s ON s.id = l.server_id
      WHERE l.id IN ($list)
      """
    case .nextcloud, .nextcloudWebPush: nil
    }
  }
}
