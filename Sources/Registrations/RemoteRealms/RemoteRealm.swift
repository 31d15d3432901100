package import Foundation

/// A realm as its server describes it (`Documentation/Protocols/Zulip.md` 4.3).
package struct RealmDescription: Sendable, Hashable {
  /// Its id at its server.
  package var realmID: Int64
  /// Its id everywhere.
  package var uuid: UUID
  /// The secret that proves that it is its own.
  package var ownerSecret: String
  /// Its host.
  package var host: String
  /// Its name.
  package var name: String
  /// Zulip's number for the kind of organisation.
  package var orgType: Int64
  /// When it was made.
  package var dateCreated: Date
  /// Whether its server has deactivated it.
  package var isDeactivated: Bool
  /// Whether it is the realm of Zulip's own bots.
  package var isSystemBotRealm: Bool
  /// How its users sign in: a JSON object of flags, compact, sorted by name.
  package var authenticationMethods: String

  /// A description by its parts.
  package init(
    realmID: Int64, uuid: UUID, ownerSecret: String, host: String, name: String, orgType: Int64,
    dateCreated: Date,
    isDeactivated: Bool, isSystemBotRealm: Bool, authenticationMethods: String
  ) {
    self.realmID = realmID
    self.uuid = uuid
    self.ownerSecret = ownerSecret
    self.host = host
    self.name = name
    self.orgType = orgType
    self.dateCreated = dateCreated
    self.isDeactivated = isDeactivated
    self.isSystemBotRealm = isSystemBotRealm
    self.authenticationMethods = authenticationMethods
  }
}

/// A realm that a server has told us of, as far as a request needs it.
package struct RemoteRealm: Sendable, Hashable {
  /// Its row.
  package let id: Int64
  /// The row of its server.
  package let serverID: Int64
}
