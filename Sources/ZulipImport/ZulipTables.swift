import Foundation

/// A row of `zilencer_remotezulipserver`.
struct SourceServer: Sendable {
  static let columns = ZulipTable.columns(
    "id uuid api_key hostname",
    optional: """
      contact_email last_updated last_version last_request_datetime last_api_feature_level last_merge_base \
      deactivated last_audit_log_update
      """)

  let id: Int64
  let uuid: UUID
  let key: String
  let hostname: String
  let contactEmail: String
  let lastUpdatedAt: Date?
  let version: String?
  let lastRequestAt: Date?
  let apiFeatureLevel: Int64?
  let mergeBase: String?
  let isDeactivated: Bool
  let lastAuditLogUpdateAt: Date?

  init(_ row: SourceRow) throws(SourceRow.Malformed) {
    id = try row.integer(0)
    uuid = try row.uuid(1)
    key = row[2] ?? ""
    hostname = row[3] ?? ""
    contactEmail = row[4] ?? ""
    lastUpdatedAt = try row.optionalTime(5)
    version = row[6]
    lastRequestAt = try row.optionalTime(7)
    apiFeatureLevel = try row.optionalInteger(8)
    mergeBase = row[9]
    isDeactivated = try row.flag(10)
    lastAuditLogUpdateAt = try row.optionalTime(11)
  }
}

/// A row of `zilencer_remoterealm`.
struct SourceRealm: Sendable {
  static let columns = ZulipTable.columns(
    "id server_id uuid uuid_owner_secret",
    optional: """
      host name is_system_bot_realm authentication_methods org_type last_request_datetime realm_deactivated \
      realm_locally_deleted realm_date_created
      """)

  let id: Int64
  let server: Int64
  let uuid: UUID
  let ownerSecret: String
  let host: String
  let name: String
  let isSystemBotRealm: Bool
  let authenticationMethods: String?
  let orgType: Int64
  let lastRequestAt: Date?
  let isDeactivated: Bool
  let isLocallyDeleted: Bool
  let dateCreated: Date?

  init(_ row: SourceRow) throws(SourceRow.Malformed) {
    id = try row.integer(0)
    server = try row.integer(1)
    uuid = try row.uuid(2)
    ownerSecret = row[3] ?? ""
    host = row[4] ?? ""
    name = row[5] ?? ""
    isSystemBotRealm = try row.flag(6)
    authenticationMethods = row[7]
    orgType = try row.optionalInteger(8) ?? 0
    lastRequestAt = try row.optionalTime(9)
    isDeactivated = try row.flag(10)
    isLocallyDeleted = try row.flag(11)
    dateCreated = try row.optionalTime(12)
  }
}

/// A row of `zilencer_remotepushdevice`.
struct SourceDevice: Sendable {
  static let columns = ZulipTable.columns(
    "device_id remote_realm_id token token_id token_kind", optional: "expired_time ios_app_id")

  let id: Int64
  let realm: Int64?
  let token: String
  let tokenID: Int64
  let kind: String
  let expiredAt: Date?
  let iosAppID: String?

  init(_ row: SourceRow) throws(SourceRow.Malformed) {
    id = try row.integer(0)
    realm = try row.optionalInteger(1)
    token = row[2] ?? ""
    tokenID = try row.integer(3)
    kind = row[4] ?? ""
    expiredAt = try row.optionalTime(5)
    iosAppID = row[6]
  }
}

/// A row of `zilencer_remotepushdevicetoken`.
struct SourceToken: Sendable {
  static let columns = ZulipTable.columns(
    "id server_id kind token", optional: "user_id user_uuid ios_app_id remote_realm_id last_updated")

  let id: Int64
  let server: Int64
  let kind: Int64
  let token: String
  let userID: Int64?
  let userUUID: UUID?
  let iosAppID: String?
  let realm: Int64?
  let lastUpdatedAt: Date?

  init(_ row: SourceRow) throws(SourceRow.Malformed) {
    id = try row.integer(0)
    server = try row.integer(1)
    kind = try row.integer(2)
    token = row[3] ?? ""
    userID = try row.optionalInteger(4)
    userUUID = try row.optionalUUID(5)
    iosAppID = row[6]
    realm = try row.optionalInteger(7)
    lastUpdatedAt = try row.optionalTime(8)
  }
}

/// A table of a Zulip bouncer (`Documentation/Protocols/Zulip.md` 1.3), in the order in which they are
/// brought in: each after those that it refers to.
package enum ZulipTable: String, Sendable, CaseIterable {
  /// RemoteZulipServer.
  case servers = "zilencer_remotezulipserver"
  /// RemoteRealm, which old versions do not have.
  case realms = "zilencer_remoterealm"
  /// RemotePushDevice: E2EE registrations, which old versions do not have.
  case devices = "zilencer_remotepushdevice"
  /// RemotePushDeviceToken: legacy registrations.
  case tokens = "zilencer_remotepushdevicetoken"

  /// A column that is read.
  struct Column: Sendable, Hashable {
    let name: String
    /// Whether every version has it.
    let isRequired: Bool
  }

  /// Whether every version has the table.
  var isRequired: Bool { self == .servers || self == .tokens }

  /// The columns that are read; the first is the key.
  var columns: [Column] {
    switch self {
    case .servers: SourceServer.columns
    case .realms: SourceRealm.columns
    case .devices: SourceDevice.columns
    case .tokens: SourceToken.columns
    }
  }

  /// Columns by their names, separated by spaces.
  static func columns(_ required: String, optional: String = "") -> [Column] {
    required.split(separator: " ").map { Column(name: String($0), isRequired: true) }
      + optional.split(separator: " ").map { Column(name: String($0), isRequired: false) }
  }
}
