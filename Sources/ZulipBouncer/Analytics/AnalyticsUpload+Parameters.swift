internal import Foundation
internal import HTTP
internal import Registrations

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
