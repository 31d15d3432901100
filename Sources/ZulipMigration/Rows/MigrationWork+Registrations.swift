internal import Foundation
internal import HTTP
internal import Registrations
internal import Sealing

extension MigrationWork {
  /// E2EE registrations.
  func bringDevices() async throws -> Bool {
    try await bring(.devices) { batch in
      let devices = try batch.records(of: .devices, SourceDevice.init(_:))
      let realms = try await journal.realms(Set(devices.compactMap(\.realm)))
      return ready(devices, \.id) { device throws(Refusal) in
        guard let id = device.realm else { throw .cloudRealm }
        guard let realm = realms[id]?.realm else { throw .unknownRealm }
        guard let kind = PushToken.Kind(rawValue: device.kind) else { throw .unknownKind }
        let token = try Self.token(device.token, kind)
        guard token.id.storage == device.tokenID else { throw .wrongTokenID }
        return target.seal(
          token, iosAppID: try Self.appID(device.iosAppID, kind), realm: realm, expiredAt: device.expiredAt)
      }
    } store: { rows, connection in
      let outcome = try target.store(rows, on: connection)
      var stored = Stored(outcome)
      stored.counts.foldedTokens = outcome.folded
      return stored
    }
  }

  /// Legacy registrations.
  func bringTokens() async throws -> Bool {
    try await bring(.tokens) { batch in
      let tokens = try batch.records(of: .tokens, SourceToken.init(_:))
      let servers = try await journal.servers(Set(tokens.map(\.server)))
      let realms = try await journal.realms(Set(tokens.compactMap(\.realm)))
      return ready(tokens, \.id) { row throws(Refusal) in
        guard let server = servers[row.server] else { throw .unknownServer }
        // One that is not known is told again with the next notification.
        let realm = row.realm.flatMap { realms[$0] }
        guard realm.map({ $0.server == server }) ?? true else { throw .anothersRealm }
        let user = try Self.user(row)
        guard let kind = PushToken.Kind(storage: row.kind) else { throw .unknownKind }
        // What was once a `bytea` is written so, and can mean nothing else.
        let text = kind == .apns && row.token.hasPrefix("\\x") ? String(row.token.dropFirst(2)) : row.token
        return target.seal(
          try Self.token(text, kind), iosAppID: try Self.appID(row.iosAppID, kind), server: server,
          realm: realm?.realm, user: user, registeredAt: row.lastUpdatedAt)
      }
    } store: { rows, connection in
      let outcome = try target.store(rows, on: connection)
      var stored = Stored(outcome)
      stored.counts.foldedSpellings = outcome.folded
      return stored
    }
  }

  private func ready<Record, Row: Sendable>(
    _ records: [Record], _ id: (Record) -> Int64, _ prepare: (Record) throws(Refusal) -> Row
  ) -> Ready<Row> {
    var ready = Ready<Row>()
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

  private static func user(_ row: SourceToken) throws(Refusal) -> RegistrationImport.User {
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

extension MigrationWork.Stored {
  fileprivate init(_ outcome: RegistrationImport.Outcome) {
    counts.imported = outcome.imported
    counts.alreadyThere = outcome.alreadyThere
    counts.superseded = outcome.superseded
  }
}
