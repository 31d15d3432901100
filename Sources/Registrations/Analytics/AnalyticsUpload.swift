package import Foundation

/// What a server reports of itself in one call (`Documentation/Protocols/Zulip.md` 4.2).
package struct AnalyticsUpload: Sendable {
  /// A figure about a realm, or about the whole server.
  package struct Count: Sendable {
    /// The row's id at the server.
    package var remoteID: Int64
    /// The realm's id at the server; nil for the whole server.
    package var realmID: Int64?
    /// What is counted.
    package var property: String
    /// A part of it.
    package var subgroup: String?
    /// The end of the time that it is about.
    package var endTime: Date
    /// How many.
    package var value: Int64

    /// A count by its parts.
    package init(
      remoteID: Int64, realmID: Int64?, property: String, subgroup: String?, endTime: Date, value: Int64
    ) {
      self.remoteID = remoteID
      self.realmID = realmID
      self.property = property
      self.subgroup = subgroup
      self.endTime = endTime
      self.value = value
    }
  }

  /// Something that happened to a realm's users.
  package struct AuditEvent: Sendable {
    /// The row's id at the server.
    package var remoteID: Int64
    /// The realm's id at the server.
    package var realmID: Int64
    /// Zulip's number for what happened.
    package var eventType: Int64
    /// When.
    package var eventTime: Date
    /// Whether the row was made later than it happened.
    package var isBackfilled: Bool
    /// Details as JSON; nil if what was sent is none.
    package var extraData: String?

    /// An event by its parts.
    package init(
      remoteID: Int64, realmID: Int64, eventType: Int64, eventTime: Date, isBackfilled: Bool,
      extraData: String?
    ) {
      self.remoteID = remoteID
      self.realmID = realmID
      self.eventType = eventType
      self.eventTime = eventTime
      self.isBackfilled = isBackfilled
      self.extraData = extraData
    }
  }

  /// The server's version, if it tells it.
  package var version: String?
  /// The commit its version is based on.
  package var mergeBase: String?
  /// Its API feature level.
  package var apiFeatureLevel: Int64?
  /// Figures about realms, in the order of their ids.
  package var realmCounts: [Count]
  /// Figures about the whole server, in the order of their ids.
  package var installationCounts: [Count]
  /// Events, in the order of their ids; nil if the server sends none.
  package var auditEvents: [AuditEvent]?
  /// All realms of the server; nil if it does not list them.
  package var realms: [RealmDescription]?

  /// An upload by its parts.
  package init(
    version: String?, mergeBase: String?, apiFeatureLevel: Int64?, realmCounts: [Count],
    installationCounts: [Count], auditEvents: [AuditEvent]?, realms: [RealmDescription]?
  ) {
    self.version = version
    self.mergeBase = mergeBase
    self.apiFeatureLevel = apiFeatureLevel
    self.realmCounts = realmCounts
    self.installationCounts = installationCounts
    self.auditEvents = auditEvents
    self.realms = realms
  }
}
