package import SQL

/// The migrations of an SQLite database, compiled into the program.
///
/// A new one is a file `NNNN_name.sql` in this folder, its name in the target's resources in
/// `Package.swift`, and one line here. SwiftPM names the constant after the file, the first
/// digit replaced by an underscore. Another engine has its own folder and target beside this
/// one, with the same numbers and names.
package enum SQLiteMigrations {
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
