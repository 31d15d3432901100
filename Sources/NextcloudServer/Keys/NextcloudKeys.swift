package import Foundation
internal import Registrations
package import SQL
package import Sealing
internal import Synchronization

/// The key pairs that sign for users at push proxies (`Documentation/Protocols/Nextcloud.md` 2): RSA-2048, one per user,
/// made when it is first needed and then for good. The private half is kept sealed.
///
/// One that does not open is an error and is never replaced: every proxy that knows the old one would take
/// all of the user's phones for somebody else's.
package final class NextcloudKeys: Sendable {
  private let database: any Database
  private let storageKey: StorageKey
  private let now: @Sendable () -> Date
  /// Making a pair takes a tenth of a second: those who ask for the same one meanwhile wait for it.
  private let making = Mutex<[Int64: Task<RSAPrivateKey, any Error>]>([:])

  package init(database: any Database, storageKey: StorageKey, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.storageKey = storageKey
    self.now = now
  }

  /// The key pair of the user whose row this is.
  ///
  /// - Throws: the database's error; `foreignKeyViolation` if there is no such user.
  package func key(of user: Int64) async throws -> RSAPrivateKey {
    let statement = Statement("SELECT private_key FROM nextcloud_keys WHERE user_id = $1", .integer(user))
    if let row = try await database.query(statement).first {
      return try open(row, of: user)
    }
    let task = making.withLock { making in
      let task = making[user] ?? Task { try await make(for: user) }
      making[user] = task
      return task
    }
    defer { making.withLock { $0[user] = nil } }
    return try await task.value
  }

  /// The public half, in PEM with a newline at its end, as apps and proxies are told it.
  ///
  /// - Parameter making: whether the pair is made if there is none; else there is nil then.
  package func publicKey(of user: Int64, making: Bool) async throws -> String? {
    let statement = Statement("SELECT public_key FROM nextcloud_keys WHERE user_id = $1", .integer(user))
    if let row = try await database.query(statement).first { return try row.text(0) }
    return making ? try await key(of: user).publicKey.pem : nil
  }

  private func make(for user: Int64) async throws -> RSAPrivateKey {
    let key = RSAPrivateKey.generate()
    // The update changes nothing: it is there so that the row which won comes back, whichever node's it is.
    let rows = try await database.execute(
      Statement(
        """
        INSERT INTO nextcloud_keys (user_id, public_key, private_key, created_at) VALUES ($1, $2, $3, $4)
        ON CONFLICT (user_id) DO UPDATE SET user_id = excluded.user_id RETURNING private_key
        """,
        .integer(user), .text(key.publicKey.pem),
        .bytes(storageKey.seal(key.pem, at: SealedColumn.nextcloudKey.place(.integer(user)))),
        .integer(now().milliseconds)))
    guard let row = rows.first else { throw DatabaseError(.other, "an insertion returned no row") }
    return try open(row, of: user)
  }

  private func open(_ row: Row, of user: Int64) throws -> RSAPrivateKey {
    guard
      let pem = storageKey.openText(
        try row.bytes(0), at: SealedColumn.nextcloudKey.place(.integer(user))),
      let key = try? RSAPrivateKey(pem: pem)
    else { throw DatabaseError(.corrupt, "the Nextcloud key of user \(user) does not open") }
    return key
  }
}
