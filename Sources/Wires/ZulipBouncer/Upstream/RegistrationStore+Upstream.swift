import Foundation
import Providers
package import Registrations
import SQL
package import Sealing

/// Registrations at the upstream bouncer. Of an end-to-end encrypted one only the realm and the token id are known; an old
/// app's token is stored like any other.
extension RegistrationStore {
  /// Records that the upstream bouncer has accepted a token's registration with a realm.
  package func registerUpstream(_ tokenID: TokenID, realm: Int64) async throws {
    try await database.execute(
      """
      INSERT INTO registrations (wire, realm_id, token_id, kind, token_hash, elsewhere, registered_at)
      VALUES (\(Wire.e2ee.sql), $1, $2, \(TokenKind.elsewhere.sql), 0, 1, $3)
      ON CONFLICT (realm_id, token_id) WHERE token_id IS NOT NULL DO UPDATE SET
        kind = \(TokenKind.elsewhere.sql), token = NULL, token_hash = 0, target = NULL, bouncer_key_id = NULL, elsewhere = 1,
        registered_at = excluded.registered_at, ended_at = NULL, \(RegistrationReference.clearFailureAndHold)
      """, .integer(realm), .integer(tokenID.storage), .integer(now().milliseconds))
  }

  /// Treats token ids that are not known here as registered upstream, until the upstream bouncer says that it does not know
  /// them: they may have been registered there before the chat server used this service.
  ///
  /// - Returns: the registrations that were added. Ids with an ended registration are known, and not among them.
  package func adoptUpstream(
    _ tokenIDs: Set<TokenID>, realm: Int64
  ) async throws -> [TokenID: RegistrationReference] {
    let now = Value.integer(now().milliseconds)
    return try await database.write { connection in
      var adopted: [TokenID: RegistrationReference] = [:]
      for id in tokenIDs.sorted(by: { $0.storage < $1.storage }) {
        adopted[id] = try connection.query(
          """
          INSERT INTO registrations (wire, realm_id, token_id, kind, token_hash, elsewhere, registered_at)
          VALUES (\(Wire.e2ee.sql), $1, $2, \(TokenKind.elsewhere.sql), 0, 0, $3) ON CONFLICT (realm_id, token_id) WHERE token_id IS NOT NULL DO NOTHING
          RETURNING id, registered_at
          """, .integer(realm), .integer(id.storage), now
        ).first.map { try RegistrationReference(.e2ee, $0) }
      }
      return adopted
    }
  }

  /// Old apps' registrations of devices that also have an end-to-end encrypted one upstream. They are found by their tokens'
  /// ids, since only the upstream bouncer can read the tokens of encrypted ones.
  package func supersededUpstream(_ legacy: [Registration], realm: Int64) async throws -> [Registration] {
    try await superseded(legacy, realm: realm).map(\.old)
  }

  /// Removes the registrations of ``supersededUpstream(_:realm:)``.
  package func supersedeUpstream(_ legacy: [Registration], realm: Int64) async throws {
    let pairs = try await superseded(legacy, realm: realm)
    try await database.write { [self] connection in
      for (old, new) in pairs { try replace(old.reference, by: new, on: connection) }
    }
  }

  private func superseded(
    _ legacy: [Registration], realm: Int64
  ) async throws -> [(old: Registration, new: RegistrationReference)] {
    var owners: [TokenID: Registration] = [:]
    for registration in legacy {
      for id in registration.token.possibleIDs { owners[id] = registration }
    }
    guard !owners.isEmpty else { return [] }
    let rows = try await database.query(
      """
      SELECT id, registered_at, token_id FROM registrations
      WHERE realm_id = $1 AND token_id IN ($list) AND elsewhere = 1 AND ended_at IS NULL
      """, .integer(realm), list: owners.keys.map { .integer($0.storage) })
    return try rows.compactMap { row in
      try owners[TokenID(storage: row.int64("token_id"))].map {
        (old: $0, new: try RegistrationReference(.e2ee, row))
      }
    }
  }
}
