import Foundation
package import Registrations

/// What a server reports of itself in one call (`Documentation/Protocols/Zulip.md` 4.2).
package struct AnalyticsUpload: Sendable {
  /// A figure about a realm, or about the whole server.
  struct Count: Sendable {
    /// The row's id at the server.
    var remoteID: Int64
    /// The realm's id at the server; nil for the whole server.
    var realmID: Int64?
    /// What is counted.
    var property: String
    /// A part of it.
    var subgroup: String?
    /// The end of the time that it is about.
    var endTime: Date
    /// How many.
    var value: Int64
  }

  /// Something that happened to a realm's users.
  struct AuditEvent: Sendable {
    /// The row's id at the server.
    var remoteID: Int64
    /// The realm's id at the server.
    var realmID: Int64
    /// Zulip's number for what happened.
    var eventType: Int64
    /// When.
    var eventTime: Date
    /// Whether the row was made later than it happened.
    var isBackfilled: Bool
    /// Details as JSON; nil if what was sent is not JSON.
    var extraData: String?
  }

  /// The server's version, if it tells it.
  var version: String?
  /// The commit its version is based on.
  var mergeBase: String?
  /// Its API feature level.
  var apiFeatureLevel: Int64?
  /// Figures about realms, in the order of their ids.
  var realmCounts: [Count]
  /// Figures about the whole server, in the order of their ids.
  var installationCounts: [Count]
  /// Events, in the order of their ids; nil if the server sends none.
  var auditEvents: [AuditEvent]?
  /// All realms of the server; nil if it does not list them.
  var realms: [RealmDescription]?
}

extension AnalyticsUpload {
  /// One of nothing but realms.
  package init(version: String?, apiFeatureLevel: Int64?, realms: [RealmDescription]) {
    self.init(
      version: version, mergeBase: nil, apiFeatureLevel: apiFeatureLevel, realmCounts: [],
      installationCounts: [], auditEvents: nil, realms: realms)
  }
}
