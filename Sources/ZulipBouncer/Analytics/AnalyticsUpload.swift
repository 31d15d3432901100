import Foundation
internal import HTTP
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

extension AnalyticsUpload {
  private static let maximumVersionLength = 128

  /// Reads an upload, each of whose parameters is a JSON document.
  init(_ parameters: inout Parameters) throws(APIError) {
    let realmCounts = try parameters.list("realm_counts") { field throws(APIError) in
      try Count(field, realmID: try field["realm"].integer())
    }
    let installationCounts = try parameters.list("installation_counts") { field throws(APIError) in
      try Count(field, realmID: nil)
    }
    let auditEvents = try parameters.optionalList("realmauditlog_rows", AuditEvent.init)
    let realms = try parameters.optionalList("realms", RealmDescription.init)
    let version = try parameters.optionalJSON("version")?.string()
    let mergeBase = try parameters.optionalJSON("merge_base")?.string()
    let apiFeatureLevel = try parameters.optionalInteger("api_feature_level")
    self.init(
      version: version.map { String($0.unicodeScalars.prefix(Self.maximumVersionLength)) },
      mergeBase: mergeBase.map { String($0.unicodeScalars.prefix(Self.maximumVersionLength)) },
      apiFeatureLevel: apiFeatureLevel,
      realmCounts: realmCounts, installationCounts: installationCounts, auditEvents: auditEvents,
      realms: realms)
  }
}

extension AnalyticsUpload.Count {
  fileprivate init(_ field: Field, realmID: @autoclosure () throws(APIError) -> Int64?) throws(APIError) {
    let property = try field["property"].string()
    let realmID = try realmID()
    self.init(
      remoteID: try field["id"].integer(), realmID: realmID, property: property,
      subgroup: try field["subgroup"].nullable?.string(), endTime: try field["end_time"].time(),
      value: try field["value"].integer())
  }
}

extension AnalyticsUpload.AuditEvent {
  fileprivate init(_ field: Field) throws(APIError) {
    self.init(
      remoteID: try field["id"].integer(), realmID: try field["realm"].integer(),
      eventType: try field["event_type"].integer(), eventTime: try field["event_time"].time(),
      isBackfilled: try field["backfilled"].bool(), extraData: try Self.extraData(field["extra_data"]))
  }

  /// Details come as an object, as a string that holds JSON, or not at all.
  private static func extraData(_ field: Field) throws(APIError) -> String? {
    switch try field.existing() {
    case .null: "{}"
    case .string(let text): (try? JSON.parse(text))?.text
    case .object(let object): JSON.object(object).text
    default: throw field.error("is not a string")
    }
  }
}

extension RealmDescription {
  private static let members: Set<Name> = [
    "id", "host", "url", "name", "org_type", "date_created", "deactivated", "is_system_bot_realm",
    "authentication_methods", "uuid", "uuid_owner_secret",
  ]
  private static let orgTypes: Set<Int64> = [0, 10, 20, 30, 35, 40, 50, 60, 70, 80, 90, 100, 1000]

  /// Reads what a server says of a realm.
  init(_ field: Field) throws(APIError) {
    let id = try field["id"].integer()
    let host = try field["host"].string()
    _ = try field["url"].string()
    let name = try field["name"].ifSent?.string() ?? ""
    let orgType = try field["org_type"].ifSent?.integer() ?? 0
    guard Self.orgTypes.contains(orgType) else {
      throw APIError("Invalid \(field["org_type"].path): Value error, Not a valid org_type value")
    }
    self.init(
      realmID: id, uuid: UUID(), ownerSecret: "", host: host, name: name, orgType: orgType,
      dateCreated: try field["date_created"].time(), isDeactivated: try field["deactivated"].bool(),
      isSystemBotRealm: try field["is_system_bot_realm"].ifSent?.bool() ?? false,
      authenticationMethods: try Self.authenticationMethods(field["authentication_methods"].ifSent))
    uuid = try field["uuid"].uuid4()
    ownerSecret = try field["uuid_owner_secret"].string()
    try field.forbidMembers(except: Self.members)
  }

  /// Sorted by name, so that another order is no change.
  private static func authenticationMethods(_ field: Field?) throws(APIError) -> String {
    guard let field else { return "{}" }
    var flags: [Name: JSON] = [:]
    for member in try field.members().members { flags[member.name] = member.value }
    for (name, value) in flags { _ = try Field(value, path: "\(field.path)[\"\(name)\"]").bool() }
    return JSON.object(JSON.Object(flags.sorted { $0.key < $1.key }.map { .init($0.key, $0.value) })).text
  }
}

/// What chat servers count, by Zulip's names (`Documentation/Protocols/Zulip.md` 4.2).
enum CountProperty {
  /// Kept.
  static let stored: Set<String> = [
    "messages_sent:is_bot:hour", "messages_sent:message_type:day", "messages_sent:client:day",
    "messages_in_stream:is_bot:day", "ai_credit_usage::day", "active_users_audit:is_bot:day",
    "upload_quota_used_bytes::day", "messages_read::hour", "messages_read_interactions::hour",
    "1day_actives::day",
    "7day_actives::day", "15day_actives::day", "minutes_active::day", "realm_active_humans::day",
  ]

  /// Kept, or taken and dropped.
  static let accepted = stored.union([
    "invites_sent::day", "mobile_pushes_sent::day", "active_users_log:is_bot:day", "active_users:is_bot:day",
  ])
}

/// The kinds of events that servers report: users created, activated, deactivated, reactivated, their
/// roles, and the realm's own deactivation and reactivation (`Documentation/Protocols/Zulip.md` 4.2).
let reportedEventTypes: Set<Int64> = [101, 102, 103, 104, 105, 201, 202, 229]
