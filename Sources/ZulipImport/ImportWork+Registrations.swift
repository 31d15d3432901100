import Foundation
import HTTP
import Registrations
import Sealing

extension ImportWork {
  /// Brings E2EE registrations in: those that have ended, or the others.
  mutating func bringDevices(ended: Bool) async throws -> Bool {
    try await bring(.devices) { [self] batch in
      let devices = try batch.records(of: .devices, SourceDevice.init(_:))
        .filter { ($0.expiredAt != nil) == ended }
      return ready(devices, \.id) { device throws(Refusal) in
        guard let id = device.realm else { throw .cloudRealm }
        guard let realm = realms[id]?.realm else { throw .unknownRealm }
        guard let kind = PushToken.Kind(rawValue: device.kind) else { throw .unknownKind }
        let token = try Self.token(device.token, kind)
        guard token.id.storage == device.tokenID else { throw .wrongTokenID }
        return seal(
          token, iosAppID: try Self.appID(device.iosAppID, kind), realm: realm, endedAt: device.expiredAt)
      }
    } store: { [self] rows, connection in
      Stored(counts: try store(rows, on: connection))
    }
  }

  /// Brings legacy registrations in.
  mutating func bringTokens() async throws -> Bool {
    let isWhole = try await bring(.tokens) { [self] batch in
      let tokens = try batch.records(of: .tokens, SourceToken.init(_:))
      return ready(tokens, \.id) { row throws(Refusal) in
        guard let server = servers[row.server] else { throw .unknownServer }
        // One that is not known is told again with the next notification.
        let realm = row.realm.flatMap { realms[$0] }
        guard realm.map({ $0.server == server }) ?? true else { throw .anothersRealm }
        let user = try Self.user(row)
        guard let kind = PushToken.Kind(storage: row.kind) else { throw .unknownKind }
        // What was once a `bytea` is written so, and can mean nothing else.
        let text = kind == .apns && row.token.hasPrefix("\\x") ? String(row.token.dropFirst(2)) : row.token
        return seal(
          try Self.token(text, kind), iosAppID: try Self.appID(row.iosAppID, kind), server: server,
          realm: realm?.realm, user: user, registeredAt: row.lastUpdatedAt)
      }
    } store: { [self] rows, connection in
      try store(rows, on: connection)
    }
    guard isWhole else { return false }
    return try await foldUserIDs()
  }

  private func ready<Record, Row: Sendable>(
    _ records: [Record], _ id: (Record) -> Int64, _ prepare: (Record) throws(Refusal) -> Row
  ) -> Ready<Row> {
    var ready = Ready<Row>(read: records.count)
    ready.rows.reserveCapacity(records.count)
    for record in records {
      do {
        ready.rows.append(try prepare(record))
      } catch {
        ready.rejects.append(.init(id: id(record), reason: error))
      }
    }
    return ready
  }

  private static func token(_ text: String, _ kind: PushToken.Kind) throws(Refusal) -> PushToken {
    do {
      return try PushToken(text, kind: kind)
    } catch {
      throw error == .length ? .tokenLength : .tokenNotHexadecimal
    }
  }

  /// The app of an APNs token, which becomes a header.
  private static func appID(_ text: String?, _ kind: PushToken.Kind) throws(Refusal) -> String? {
    guard kind == .apns else { return nil }
    guard let text, !text.isEmpty else { throw .noAppID }
    guard AppID.isValid(text) else { throw .malformedAppID }
    return text
  }

  private static func user(_ row: SourceToken) throws(Refusal) -> LegacyOwner {
    switch (row.userID, row.userUUID) {
    case (nil, nil): throw .noUser
    case (.some, .some): throw .twoUsers
    case (nil, let uuid?): return .uuid(uuid)
    case (let id?, nil):
      guard id >= 0 else { throw .userIDOutOfRange }
      return .id(id)
    }
  }
}
