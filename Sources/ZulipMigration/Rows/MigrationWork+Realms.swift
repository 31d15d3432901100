internal import Foundation
internal import HTTP

extension MigrationWork {
  func bringRealms() async throws -> Bool {
    try await bring(.realms) { batch in
      let realms = try batch.records(of: .realms, SourceRealm.init(_:))
      let servers = try await journal.servers(Set(realms.map(\.server)))
      var ready = Ready<(id: Int64, realm: RegistrationImport.Realm)>()
      for realm in realms {
        if let server = servers[realm.server] {
          ready.rows.append((realm.id, prepared(realm, server: server)))
        } else {
          ready.rejects.append(.init(id: realm.id, reason: .unknownServer))
        }
      }
      return ready
    } store: { rows, connection in
      var stored = Stored()
      for (id, realm) in rows {
        switch try target.store(realm, on: connection) {
        case .imported(let row):
          stored.counts.imported += 1
          try MigrationJournal.note(
            realm: id, as: .init(realm: row, server: realm.server), on: connection)
        case .alreadyThere(let row):
          stored.counts.alreadyThere += 1
          try MigrationJournal.note(
            realm: id, as: .init(realm: row, server: realm.server), on: connection)
        case .anothers:
          stored.rejects.append(.init(id: id, reason: .anothersRealm))
        }
      }
      return stored
    }
  }

  private func prepared(_ realm: SourceRealm, server: Int64) -> RegistrationImport.Realm {
    RegistrationImport.Realm(
      server: server, uuid: realm.uuid, ownerSecret: realm.ownerSecret, host: realm.host, name: realm.name,
      orgType: realm.orgType, dateCreated: realm.dateCreated ?? target.startedAt,
      isDeactivated: realm.isDeactivated, isLocallyDeleted: realm.isLocallyDeleted,
      isSystemBotRealm: realm.isSystemBotRealm,
      authenticationMethods: Self.authenticationMethods(realm.authenticationMethods),
      lastRequestAt: realm.lastRequestAt)
  }

  /// As an upload would have it, so that the next one does not find them changed.
  private static func authenticationMethods(_ text: String?) -> String {
    guard let text, case .object(let object)? = try? JSON.parse(text) else { return "{}" }
    let flags = object.members.filter { if case .bool = $0.value { true } else { false } }
    return JSON.object(JSON.Object(flags.sorted { $0.name < $1.name })).text
  }
}
