package import Foundation
import Registrations
package import SQL
package import Sealing
import Synchronization

/// The users' key pairs for signing at push proxies (`Documentation/Protocols/Nextcloud.md` 2): RSA-2048, one
/// per user, created when first needed and never replaced. The private half is stored sealed.
///
/// A key that does not open is an error and is not replaced: proxies that know the old key would treat all of
/// the user's phones as somebody else's.
package final class NextcloudKeys: Sendable {
  private let database: any Database
  private let storageKey: StorageKey
  private let now: @Sendable () -> Date
  /// Key pairs being created. That takes 0.1 s; concurrent callers for the same user wait for one task.
  private let making = Mutex<[Int64: Task<RSAPrivateKey, any Error>]>([:])

  package init(database: any Database, storageKey: StorageKey, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.storageKey = storageKey
    self.now = now
  }

  /// The key pair of a user, by the id of the user's row.
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

  /// The public half in PEM with a final newline, as apps and proxies get it.
  ///
  /// - Parameter making: whether to create a missing pair; otherwise nil is returned.
  package func publicKey(of user: Int64, making: Bool) async throws -> String? {
    let statement = Statement("SELECT public_key FROM nextcloud_keys WHERE user_id = $1", .integer(user))
    if let row = try await database.query(statement).first { return try row.text("public_key") }
    return making ? try await key(of: user).publicKey.pem : nil
  }

  private func make(for user: Int64) async throws -> RSAPrivateKey {
    let key = RSAPrivateKey.generate()
    // The update changes nothing; it makes `RETURNING` yield the row, whichever node created it.
    let row = try await database.execute(
      """
      INSERT INTO nextcloud_keys (user_id, public_key, private_key, created_at) VALUES ($1, $2, $3, $4)
      ON CONFLICT (user_id) DO UPDATE SET user_id = excluded.user_id RETURNING private_key
      """,
      .integer(user), .text(key.publicKey.pem),
      .bytes(storageKey.seal(key.pem, at: SealedColumn.nextcloudKey.place(.integer(user)))),
      .integer(now().milliseconds)
    ).returned
    return try open(row, of: user)
  }

  private func open(_ row: Row, of user: Int64) throws -> RSAPrivateKey {
    guard
      let pem = storageKey.openText(
        try row.bytes("private_key"), at: SealedColumn.nextcloudKey.place(.integer(user))),
      let key = try? RSAPrivateKey(pem: pem)
    else { throw DatabaseError(.corrupt, "the Nextcloud key of user \(user) does not open") }
    return key
  }
}
