import SQL

extension OutcomeRecorder {
  /// The hostnames of the chat servers that registrations belong to; those of Nextcloud have none.
  package func hostnames(of registrations: [RegistrationReference]) async throws -> [Int64: String] {
    guard !registrations.isEmpty else { return [:] }
    let statement = Statement(
      """
      SELECT g.id, s.hostname FROM registrations g LEFT JOIN remote_realms r ON r.id = g.realm_id
        JOIN remote_servers s ON s.id = COALESCE(g.server_id, r.server_id) WHERE g.id IN ($list)
      """, list: registrations.map { .integer($0.id) })
    let rows = try await database.read { try $0.query(statement) }
    return Dictionary(try rows.map { (try $0.int64(0), try $0.text(1)) }) { $1 }
  }
}
