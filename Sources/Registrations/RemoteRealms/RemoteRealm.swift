public import Foundation

/// A realm as its server describes it (`Documentation/Protocols/Zulip.md` 4.3).
public struct RealmDescription: Sendable, Hashable {
  /// Its id at its server.
  public var realmID: Int64
  /// Its id everywhere.
  public var uuid: UUID
  /// The secret that proves that it is its own.
  public var ownerSecret: String
  /// Its host.
  public var host: String
  /// Its name.
  public var name: String
  /// Zulip's number for the kind of organisation.
  public var orgType: Int64
  /// When it was made.
  public var dateCreated: Date
  /// Whether its server has deactivated it.
  public var isDeactivated: Bool
  /// Whether it is the realm of Zulip's own bots.
  public var isSystemBotRealm: Bool
  /// How its users sign in: a JSON object of flags, compact, sorted by name.
  public var authenticationMethods: String

  /// A description by its parts.
  public init(
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
public struct RemoteRealm: Sendable, Hashable {
  /// Its row.
  public let id: Int64
  /// The row of its server.
  public let serverID: Int64
}
