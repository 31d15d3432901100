import Foundation
import HTTP
package import Registrations
import SQL

/// A server's report about itself in one call (`Documentation/Protocols/Zulip.md` 4.2).
package struct AnalyticsUpload: Sendable {
  /// A figure about a realm, or about the whole server.
  struct Count: Sendable {
    var remoteID: Int64
    /// The realm's id at its server; nil for the whole server.
    var realmID: Int64?
    var property: String
    var subgroup: String?
    var endTime: Date
    var value: Int64
    /// Whether it has more than id and property.
    var isWhole = true
  }

  /// An event in a realm, such as a change of a user.
  struct AuditEvent: Sendable {
    var remoteID: Int64
    /// The realm's id at its server.
    var realmID: Int64
    /// Zulip's number of the event type.
    var eventType: Int64
    var eventTime: Date
    /// Whether the row was created after the event.
    var isBackfilled: Bool
    /// JSON; nil if it was not valid JSON.
    var extraData: String?
    /// Whether it has more than id and type.
    var isWhole = true
  }

  package private(set) var version: String?
  /// Commit that the version is based on.
  var mergeBase: String?
  package private(set) var apiFeatureLevel: Int64?
  /// Sorted by id, like the other lists.
  var realmCounts: [Count] = []
  var installationCounts: [Count] = []
  /// The audit events; nil if the server sends none.
  var auditEvents: [AuditEvent]?
  /// All realms of the server; nil if it sends no list.
  package internal(set) var realms: [RealmDescription]?
  /// ``realms`` as it was sent, JSON.
  private(set) var realmsText: String?
  /// Its parameters that are not known here.
  private(set) var more: [Form.Field] = []
  /// Its members and values that are not known here.
  private(set) var additions = Additions()

  /// An upload of realms only.
  package init(version: String?, apiFeatureLevel: Int64?, realms: [RealmDescription]?) {
    self.version = version
    self.apiFeatureLevel = apiFeatureLevel
    self.realms = realms
  }

  private static let maximumVersionLength = 128

  /// Reads an upload; each parameter is a JSON document.
  init(_ parameters: inout Parameters) throws(APIError) {
    var additions = Additions()
    realmCounts = try parameters.list("realm_counts") { field throws(APIError) in
      try Count(field, ofRealm: true, at: "realm_counts[]", &additions)
    }
    installationCounts = try parameters.list("installation_counts") { field throws(APIError) in
      try Count(field, ofRealm: false, at: "installation_counts[]", &additions)
    }
    auditEvents = try parameters.optionalList("realmauditlog_rows") { field throws(APIError) in
      try AuditEvent(field, at: "realmauditlog_rows[]", &additions)
    }
    realms = try parameters.optionalList("realms") { field throws(APIError) in
      try RealmDescription(field, at: "realms[]", &additions)
    }
    self.additions = additions
    realmsText = parameters.optional("realms")
    func cut(_ text: String) -> String { String(text.unicodeScalars.prefix(Self.maximumVersionLength)) }
    version = try parameters.optionalJSON("version")?.string()
    version = version.map(cut)
    mergeBase = try parameters.optionalJSON("merge_base")?.string()
    mergeBase = mergeBase.map(cut)
    apiFeatureLevel = try parameters.optionalInteger("api_feature_level")
    more = parameters.undeclared
  }
}

extension AnalyticsUpload.Count {
  /// Reads a row. Of a property that is not known here only the id has to be there.
  fileprivate init(
    _ field: Field, ofRealm: Bool, at place: String, _ additions: inout Additions
  ) throws(APIError) {
    let property = try field["property"].string()
    let id = try field["id"].integer()
    if CountProperty.stored.contains(property) {
      try self.init(field, id, property, ofRealm)
      additions.addMembers(of: field.value, at: place, except: Self.members)
      return
    }
    if !CountProperty.dropped.contains(property) { additions.addValue(property, of: "\(place).property") }
    if property.utf8.count <= Self.longestProperty, let whole = try? Self(field, id, property, ofRealm) {
      self = whole
    } else {
      self.init(
        remoteID: id, realmID: nil, property: property, subgroup: nil,
        endTime: Date(timeIntervalSince1970: 0), value: 0, isWhole: false)
    }
  }

  private init(_ field: Field, _ id: Int64, _ property: String, _ ofRealm: Bool) throws(APIError) {
    self.init(
      remoteID: id, realmID: ofRealm ? try field["realm"].integer() : nil, property: property,
      subgroup: try field["subgroup"].nullable?.string(maximum: Self.longestSubgroup),
      endTime: try field["end_time"].time(),
      value: try field["value"].integer())
  }

  /// Maximum size in bytes of a property that is not known here. Zulip's have 32 characters at most.
  private static let longestProperty = 128
  /// Maximum size in bytes. Zulip's have 16 characters at most.
  private static let longestSubgroup = 255

  private static let members: [Name] = [
    "id", "realm", "property", "subgroup", "end_time", "value",
  ]
}

extension AnalyticsUpload.AuditEvent {
  /// Events that are stored: users created, activated, deactivated and reactivated, changes of their roles, and the
  /// realm's own deactivation and reactivation (`Documentation/Protocols/Zulip.md` 4.2).
  static let stored: Set<Int64> = [101, 102, 103, 104, 105, 201, 202, 229]

  /// Reads a row. Of a type that is not known here only the id has to be there.
  fileprivate init(_ field: Field, at place: String, _ additions: inout Additions) throws(APIError) {
    let id = try field["id"].integer()
    let type = try field["event_type"].integer()
    if Self.stored.contains(type) {
      try self.init(field, id, type)
      additions.addMembers(of: field.value, at: place, except: Self.members)
      return
    }
    additions.addValue("\(type)", of: "\(place).event_type")
    if let whole = try? Self(field, id, type), whole.extraData != nil {
      self = whole
    } else {
      self.init(
        remoteID: id, realmID: 0, eventType: type, eventTime: Date(timeIntervalSince1970: 0),
        isBackfilled: false, extraData: nil, isWhole: false)
    }
  }

  private init(_ field: Field, _ id: Int64, _ type: Int64) throws(APIError) {
    let realm = try field["realm"].integer()
    let time = try field["event_time"].time()
    let isBackfilled = try field["backfilled"].bool()
    // `extra_data` is an object, a string that contains JSON, or absent.
    let extraData: String? =
      switch try field["extra_data"].existing() {
      case .null: "{}"
      case .string(let text): (try? JSON.parse(text))?.text
      case .object(let object): JSON.object(object).text
      default: throw field["extra_data"].error("is not a string")
      }
    guard extraData?.utf8.count ?? 0 <= Self.longestExtraData else {
      throw field["extra_data"].error("is too long (limit: \(Self.longestExtraData) bytes)")
    }
    self.init(
      remoteID: id, realmID: realm, eventType: type, eventTime: time, isBackfilled: isBackfilled,
      extraData: extraData)
  }

  /// Maximum size in bytes. What Zulip's servers report are a few numbers.
  private static let longestExtraData = 2048
  private static let members: [Name] = [
    "id", "realm", "event_type", "event_time", "backfilled", "extra_data",
  ]
}

extension RealmDescription {
  private static let members: [Name] = [
    "id", "host", "url", "name", "org_type", "date_created", "deactivated", "is_system_bot_realm",
    "authentication_methods", "uuid", "uuid_owner_secret",
  ]
  /// Maximum size in bytes of a realm's host, and of its name, which has 40 characters at most at Zulip's servers.
  private static let longestName = 255
  /// Maximum size in bytes of the ways to sign in, as JSON. Zulip's dozen take 250.
  private static let longestMethods = 1024
  private static let orgTypes: Set<Int64> = [0, 10, 20, 30, 35, 40, 50, 60, 70, 80, 90, 100, 1000]

  /// Reads the description of a realm. An `org_type` that is not known is kept: nothing depends on it.
  init(_ field: Field, at place: String, _ additions: inout Additions) throws(APIError) {
    let id = try field["id"].integer()
    let host = try field["host"].string(maximum: Self.longestName)
    _ = try field["url"].string()
    let name = try field["name"].ifSent?.string(maximum: Self.longestName) ?? ""
    let orgType = try field["org_type"].ifSent?.integer() ?? 0
    self.init(
      realmID: id, uuid: UUID(), ownerSecret: "", host: host, name: name, orgType: orgType,
      dateCreated: try field["date_created"].time(), isDeactivated: try field["deactivated"].bool(),
      isSystemBotRealm: try field["is_system_bot_realm"].ifSent?.bool() ?? false,
      authenticationMethods: try Self.authenticationMethods(field["authentication_methods"].ifSent))
    uuid = try field["uuid"].uuid4()
    ownerSecret = try field["uuid_owner_secret"].string()
    additions.addMembers(of: field.value, at: place, except: Self.members)
    if !Self.orgTypes.contains(orgType) {
      additions.addValue("\(orgType)", of: "\(place).org_type")
    }
  }

  /// Sorted by name, so that a different order is not a change.
  private static func authenticationMethods(_ field: Field?) throws(APIError) -> String {
    guard let field else { return "{}" }
    var methods: [Name: JSON] = [:]
    for member in try field.members().members { methods[member.name] = member.value }
    let text = JSON.object(JSON.Object(methods.sorted { $0.key < $1.key }.map { .init($0.key, $0.value) }))
      .text
    guard text.utf8.count <= longestMethods else {
      throw field.error("is too long (limit: \(longestMethods) bytes)")
    }
    return text
  }
}

/// The figures that chat servers report, by Zulip's names (`Documentation/Protocols/Zulip.md` 4.2).
enum CountProperty {
  static let stored: Set<String> = [
    "messages_sent:is_bot:hour", "messages_sent:message_type:day", "messages_sent:client:day",
    "messages_in_stream:is_bot:day", "ai_credit_usage::day", "active_users_audit:is_bot:day",
    "upload_quota_used_bytes::day", "messages_read::hour", "messages_read_interactions::hour",
    "1day_actives::day",
    "7day_actives::day", "15day_actives::day", "minutes_active::day", "realm_active_humans::day",
  ]

  /// Figures that are known and not stored.
  static let dropped: Set<String> = [
    "invites_sent::day", "mobile_pushes_sent::day", "active_users_log:is_bot:day",
    "active_users:is_bot:day",
  ]
}

extension Field {
  /// The field, unless it is absent.
  var ifSent: Field? { value == nil ? nil : self }

  /// The field, unless it is null; an absent field is kept, to be refused when it is read.
  var nullable: Field? { value == .null ? nil : self }

  /// A time in seconds since 1970, limited to the years that a calendar has.
  fileprivate func time() throws(APIError) -> Date {
    let seconds = try number()
    guard abs(seconds) < 253_402_300_800 else { throw error("is not a valid time") }
    return Date(timeIntervalSince1970: seconds)
  }

  /// A UUID of version 4 in any spelling that Python accepts.
  func uuid4() throws(APIError) -> UUID {
    guard let uuid = UUID(pythonText: try string()), uuid.isVersion4 else {
      throw error("has invalid format")
    }
    return uuid
  }
}
