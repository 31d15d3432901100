package import Registrations
package import SQL
package import Sealing
import Storage

extension Outbox {
  /// Gives what is on its way to a registration to another one, in the transaction in which that takes its place: it
  /// was promised, and is not sent twice.
  package static func handOver(
    from old: RegistrationReference, to new: RegistrationReference, sealedUnder storageKey: StorageKey,
    on connection: any Connection
  ) throws {
    let waiting = try connection.query(
      Statement(
        "SELECT id, push FROM outbox WHERE registration_kind = $1 AND registration_id = $2",
        .integer(old.kind.rawValue), .integer(old.id)))
    for row in waiting {
      let sealed = try row.bytes(1)
      let push = storageKey.open(sealed, at: old.row.place)
      try connection.run(
        Statement(
          """
          UPDATE outbox SET registration_kind = $2, registration_id = $3, registered_at = $4, push = $5
          WHERE id = $1
          """, .integer(try row.int64(0)), .integer(new.kind.rawValue), .integer(new.id),
          .integer(new.registeredAt.milliseconds),
          .bytes(push.map { storageKey.seal($0, at: new.row.place) } ?? sealed)))
    }
  }
}

extension RegistrationReference.Row {
  /// Where the pushes to it stand in the outbox.
  package var place: SealedPlace { SealedColumn.outboxPush.place(.integer(kind.rawValue), .integer(id)) }
}
