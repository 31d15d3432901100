package import SQL

/// The migrations of a PostgreSQL database, compiled into the program: the same tables under the
/// same numbers and names as in the folder beside this one.
///
/// Text that is looked up or sorted by has the collation "C", which compares bytes as SQLite does.
package enum PostgreSQLMigrations {
  /// All migrations, in order.
  package static let all = [
    Migration(1, "bouncer", PackageResources._001_bouncer_sql),
    Migration(2, "outbox", PackageResources._002_outbox_sql),
    Migration(3, "server", PackageResources._003_server_sql),
    Migration(4, "legacy", PackageResources._004_legacy_sql),
    Migration(5, "nextcloud_proxy", PackageResources._005_nextcloud_proxy_sql),
    Migration(6, "nextcloud_server", PackageResources._006_nextcloud_server_sql),
    Migration(7, "migration", PackageResources._007_migration_sql),
    Migration(8, "nextcloud_notifications", PackageResources._008_nextcloud_notifications_sql),
    Migration(9, "nextcloud_login_flows", PackageResources._009_nextcloud_login_flows_sql),
    Migration(10, "nextcloud_devices", PackageResources._010_nextcloud_devices_sql),
    Migration(11, "outbox_shares", PackageResources._011_outbox_shares_sql),
    Migration(12, "held_deaths", PackageResources._012_held_deaths_sql),
    Migration(13, "realm_release", PackageResources._013_realm_release_sql),
  ]
}
