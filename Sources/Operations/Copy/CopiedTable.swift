/// A table as a copy sees it.
struct CopiedTable: Sendable, Hashable {
  /// Its name.
  let name: String
  /// The columns of its primary key, which come first in ``columns``.
  let key: [String]
  /// All of its columns.
  let columns: [String]
  /// Rows that belong to the place and not to the service.
  let exception: String?

  init(_ name: String, key: String = "id", _ rest: String, except exception: String? = nil) {
    self.name = name
    self.key = Self.names(key)
    columns = self.key + Self.names(rest)
    self.exception = exception
  }

  private static func names(_ text: String) -> [String] {
    text.split { $0 == " " || $0 == "\n" }.map(String.init)
  }

  /// Every table with what the service keeps, each after those that it refers to.
  static let all = [
    CopiedTable("metadata", key: "name", "value", except: "name = 'write_check' OR name LIKE 'lease.%'"),
    CopiedTable(
      "remote_servers",
      """
      uuid hostname hostname_key contact_email key_hash previous_key_hash previous_key_until deactivated_at
      last_request_at last_version last_merge_base last_api_feature_level last_audit_log_update_at created_at
      updated_at
      """),
    CopiedTable("remote_server_audit_log", "server_id event_type event_time"),
    CopiedTable(
      "remote_realms",
      """
      server_id uuid owner_secret_hash realm_id host name is_system_bot_realm authentication_methods org_type
      is_deactivated is_locally_deleted date_created last_request_at released_until
      """),
    CopiedTable(
      "remote_realm_audit_log",
      "server_id remote_id realm_id event_type event_time backfilled extra_data"),
    CopiedTable(
      "remote_realm_counts", key: "server_id remote_id", "realm_id property subgroup end_time value"),
    CopiedTable(
      "remote_installation_counts", key: "server_id remote_id", "property subgroup end_time value"),
    CopiedTable("bouncer_keys", "public_key announced_at"),
    CopiedTable(
      "e2ee_registrations",
      """
      realm_id token_id kind token token_hash ios_app_id bouncer_key_id registered_at expired_at failure
      failed_at
      """),
    CopiedTable(
      "legacy_registrations",
      """
      server_id realm_id user_id user_uuid kind token token_hash ios_app_id registered_at failure failed_at
      """),
    CopiedTable(
      "nextcloud_devices",
      """
      device_identifier user_key token token_hash kind app target registered_at is_used seen_at
      token_differs_since failure failed_at
      """),
    CopiedTable("nextcloud_removals", key: "id", "devices"),
    CopiedTable("outbox_routes", "provider credential target"),
    CopiedTable(
      "outbox",
      """
      route_id registration_id registered_at push collapse_hash created_at due_at expires_at attempts
      registration_kind
      """),
    CopiedTable(
      "held_deaths", key: "kind registration_id", "registered_at route_id reason holds_before first_said_at"),
    CopiedTable("realms", "uuid name url require_e2ee owner_secret created_at"),
    CopiedTable(
      "users",
      """
      realm_id user_id uuid email email_key username username_key api_key_hash last_event created_at
      """),
    CopiedTable("app_passwords", "user_id name password_hash created_at"),
    CopiedTable(
      "devices",
      """
      user_id push_key push_key_id kind token_id pending_token_id token_updated_at error_code created_at
      """),
    CopiedTable(
      "device_registrations", key: "device_id",
      "token_id bouncer_public_key encrypted_push_registration requested_at due_at attempts"),
    CopiedTable(
      "device_events", key: "user_id number",
      """
      device_id operation changed push_key_id token_id pending_token_id token_updated_at error_code created_at
      """),
    CopiedTable("event_queues", "user_id follows_devices seen_at"),
    CopiedTable("legacy_tokens", "user_id kind token token_hash ios_app_id created_at"),
    CopiedTable(
      "legacy_unregistrations",
      "realm_uuid user_uuid user_id kind token token_hash requested_at due_at attempts failure"),
    CopiedTable("nextcloud_keys", key: "user_id", "public_key private_key created_at"),
    CopiedTable(
      "nextcloud_registrations",
      """
      user_id app_password_id device_identifier device_key push_token_hash proxy_server proxy_url app_kind
      created_at registered_at
      """),
    CopiedTable(
      "nextcloud_notifications", key: "user_id nid",
      "app created_at subject message object_type object_id"),
    CopiedTable("nextcloud_login_flows", "poll_hash login_hash client address_hash user_id created_at"),
    CopiedTable(
      "nextcloud_pushes",
      """
      registration_id registered_at proxy_url device_identifier entry kind nid created_at due_at expires_at
      attempts
      """),
    CopiedTable("zulip_migration_runs", "source started_at first_legacy_id finished_at"),
    CopiedTable("zulip_migration_progress", key: "table_name", "position counts"),
    CopiedTable("zulip_migration_servers", "server_id"),
    CopiedTable("zulip_migration_realms", "server_id realm_id"),
    CopiedTable("zulip_migration_rejects", "table_name row_id reason"),
    CopiedTable("migration_history", key: "day server_id realm_id", "legacy e2ee"),
  ]
}
