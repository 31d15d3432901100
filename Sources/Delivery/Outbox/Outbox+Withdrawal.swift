import Providers
import Registrations
import SQL
import Sealing

extension Outbox {
  /// As many in one statement.
  private static let atOnce = 512

  /// Drops what waits for registrations and has become worthless. One that is under way at its provider may still
  /// arrive.
  ///
  /// - Parameter collapseIDs: of what goes; nil: everything.
  func withdraw(_ collapseIDs: [String]?, from registrations: [RegistrationReference]) async throws {
    let conditions: [(sql: String, arguments: [Value])] =
      if let collapseIDs {
        chunks(
          registrations.flatMap { registration in
            collapseIDs.map { .integer(collapseHash(of: $0, registration)) }
          }
        ).map { ("collapse_hash IN (\(Statement.placeholders($0.count)))", $0) }
      } else {
        chunks(registrations.map { .integer($0.id) }).map {
          ("registration_id IN (\(Statement.placeholders($0.count)))", $0)
        }
      }
    guard !conditions.isEmpty else { return }
    let gone = try await database.write { connection in
      var gone: [OutboxDepth.Share] = []
      for (sql, arguments) in conditions {
        let found = try connection.query(
          Statement(
            """
            SELECT r.provider, r.credential, r.target, r.owner, o.wire
            FROM outbox o JOIN outbox_routes r ON r.id = o.route_id WHERE \(sql)
            """, arguments: arguments))
        guard !found.isEmpty else { continue }
        try connection.run(Statement("DELETE FROM outbox WHERE \(sql)", arguments: arguments))
        for row in found {
          guard let queue = try OutboxQueue(row, from: 0),
            let kind = RegistrationReference.Kind(rawValue: try row.int64(4))
          else { continue }
          gone.append(OutboxDepth.Share(queue: queue, kind: kind))
        }
      }
      return gone
    }
    depth.release(gone)
  }

  private func chunks(_ values: [Value]) -> [[Value]] {
    stride(from: 0, to: values.count, by: Self.atOnce).map {
      Array(values[$0..<min($0 + Self.atOnce, values.count)])
    }
  }

  /// 64 bits of a keyed hash of a registration and a collapse id.
  func collapseHash(of collapseID: String, _ registration: RegistrationReference) -> Int64 {
    storageKey.hash("\(registration.id) \(collapseID)", for: Self.collapsePurpose).prefix(8)
      .reduce(0) { $0 << 8 | Int64($1) }
  }

  private static let collapsePurpose = StorageKey.Purpose("outbox.collapse")
}
