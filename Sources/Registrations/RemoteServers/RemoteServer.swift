package import Foundation
internal import SQL

/// A chat server that uses this bouncer (`Documentation/Protocols/Zulip.md` 1.3).
package struct RemoteServer: Sendable, Hashable {
  /// Its row.
  package let id: Int64
  /// What it calls itself (`zulip_org_id`).
  package let uuid: UUID
  /// Its hostname, as ``Hostname`` writes it; or what it has in place of one (``Hostname/key(of:)``).
  package let hostname: String
  /// Whom to write to.
  package let contactEmail: String
  /// When it was switched off, if it was; it then keeps its hostname and may do nothing.
  package let deactivatedAt: Date?
  /// Its latest authenticated call, as far as that has been written down.
  package let lastRequestAt: Date?
  /// Its version, as it last reported it.
  package let version: String?
  /// The commit its version is based on.
  package let mergeBase: String?
  /// Its API feature level.
  package let apiFeatureLevel: Int64?
  /// When it last uploaded its audit log.
  package let lastAuditLogUpdateAt: Date?
  /// When it first registered.
  package let createdAt: Date

  /// Whether it was switched off.
  package var isDeactivated: Bool { deactivatedAt != nil }
}

extension RemoteServer {
  /// The columns that ``init(row:)`` reads, in its order.
  static let columns = """
    id, uuid, hostname, contact_email, deactivated_at, last_request_at, last_version, last_merge_base, \
    last_api_feature_level, last_audit_log_update_at, created_at
    """
  static let columnCount = 11

  init(row: Row) throws {
    id = try row.int64(0)
    uuid = try row.uuid(1)
    hostname = try row.text(2)
    contactEmail = try row.text(3)
    deactivatedAt = try row.optionalDate(4)
    lastRequestAt = try row.optionalDate(5)
    version = try row.optionalText(6)
    mergeBase = try row.optionalText(7)
    apiFeatureLevel = try row.optionalInt64(8)
    lastAuditLogUpdateAt = try row.optionalDate(9)
    createdAt = try row.date(10)
  }
}
