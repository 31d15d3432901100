package import Registrations
package import SQL
package import Sealing

extension Outbox {
  /// Gives what is on its way to a registration to another one, in the transaction in which that takes its place: it
  /// was promised, and is not sent twice.
  package static func handOver(
    from old: RegistrationReference, to new: RegistrationReference, sealedUnder storageKey: StorageKey,
    on connection: any Connection
  ) throws {
    let waiting = try connection.query(
      Statement(
        "SELECT id, push FROM outbox WHERE registration_id = $1", .integer(old.id)))
    for row in waiting {
      let sealed = try row.bytes(1)
      let push = storageKey.open(sealed, at: place(of: old.id))
      try connection.run(
        Statement(
          """
          UPDATE outbox SET wire = $2, registration_id = $3, registered_at = $4, push = $5
          WHERE id = $1
          """, .integer(try row.int64(0)), .integer(new.kind.rawValue), .integer(new.id),
          .integer(new.registeredAt.milliseconds),
          .bytes(push.map { storageKey.seal($0, at: place(of: new.id)) } ?? sealed)))
    }
  }

  /// Where the pushes to a registration stand in the outbox.
  package static func place(of registration: Int64) -> SealedPlace {
    SealedColumn.outboxPush.place(.integer(registration))
  }
}
