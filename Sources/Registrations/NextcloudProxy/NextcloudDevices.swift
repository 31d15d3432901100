public import Foundation
public import SQL
public import Sealing

/// The devices of Nextcloud's push proxy. Tokens are sealed under the storage key.
///
/// An identifier belongs to the key that it was first registered with: a registration is signed without
/// time or nonce, so that whoever has seen one could repeat it, and this is what keeps others out.
public final class NextcloudDevices: Sendable {
  static let tokenPurpose = StorageKey.Purpose("nextcloud_devices.token")

  /// A power of two, as lists are padded, below what a statement can have.
  private static let maximumList = 16_384

  let database: any Database
  let storageKey: StorageKey
  let now: @Sendable () -> Date

  /// The devices in `database`, sealed under `storageKey`.
  public init(database: any Database, storageKey: StorageKey, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.storageKey = storageKey
    self.now = now
  }

  /// Registers a device, or renews its registration; everything about it is then as told now.
  ///
  /// - Parameter isProven: whether the key is known to be that of the account, so that it may take an
  ///   identifier over from another key.
  /// - Returns: whether it is registered; if not, its identifier belongs to another key.
  public func register(_ registration: NextcloudDevice.Registration, isProven: Bool = false) async throws
    -> Bool
  {
    let rows = try await database.execute(
      Statement(
        upsert, .bytes(registration.identifier), .bytes(registration.userKey),
        .bytes(storageKey.seal(registration.token, for: Self.tokenPurpose)), .bytes(registration.tokenHash),
        .integer(registration.destination.kind.rawValue), .text(registration.destination.app),
        .text(registration.destination.target), .integer(now().milliseconds), .flag(isProven)))
    return !rows.isEmpty
  }

  /// Forgets a device.
  ///
  /// - Returns: whether there was one with this identifier and key.
  public func remove(identifier: [UInt8], userKey: [UInt8]) async throws -> Bool {
    let statement = Statement(
      "DELETE FROM nextcloud_devices WHERE device_identifier = $1 AND user_key = $2",
      .bytes(identifier), .bytes(userKey))
    return try await database.write { try $0.run(statement) > 0 }
  }

  /// The devices with these identifiers, in no order: one query, unless there are more identifiers than a
  /// statement can have.
  public func lookup(_ identifiers: [[UInt8]]) async throws -> [NextcloudDevice] {
    let statements = stride(from: 0, to: identifiers.count, by: Self.maximumList).map { start in
      Statement(
        """
        SELECT id, device_identifier, user_key, token, token_hash, kind, app, target, registered_at
        FROM nextcloud_devices WHERE device_identifier IN ($list)
        """,
        list: identifiers[start..<min(start + Self.maximumList, identifiers.count)].map(Value.bytes))
    }
    guard !statements.isEmpty else { return [] }
    return try await database.read { connection in try statements.flatMap(connection.query) }.map(device)
  }

  private func device(_ row: Row) throws -> NextcloudDevice {
    guard let kind = NextcloudDevice.Destination.Kind(rawValue: try row.int64(5)) else {
      throw DatabaseError(.corrupt, "Nextcloud device \(try row.int64(0)) is of no known kind")
    }
    return NextcloudDevice(
      id: try row.int64(0), identifier: try row.bytes(1), userKey: try row.bytes(2),
      token: storageKey.openText(try row.bytes(3), for: Self.tokenPurpose), tokenHash: try row.bytes(4),
      destination: .init(kind, app: try row.text(6), target: try row.optionalText(7)),
      registeredAt: try row.date(8))
  }
}

private let upsert = """
  INSERT INTO nextcloud_devices
    (device_identifier, user_key, token, token_hash, kind, app, target, registered_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
  ON CONFLICT (device_identifier) DO UPDATE SET
    user_key = excluded.user_key, token = excluded.token, token_hash = excluded.token_hash,
    kind = excluded.kind, app = excluded.app, target = excluded.target,
    registered_at = excluded.registered_at, failure = NULL, failed_at = NULL
  WHERE nextcloud_devices.user_key = excluded.user_key OR $9 = 1
  RETURNING id
  """
