package import SQL

extension Connection {
  /// Writes down, in the transaction in which they go, that so many devices of the Nextcloud proxy are removed and not
  /// lost: by the proxy, or by deliveries that find them dead.
  package func noteRemovedNextcloudDevices(_ count: Int) throws {
    guard count > 0 else { return }
    try run(
      Statement(
        """
        INSERT INTO nextcloud_removals (id, devices) VALUES (1, $1)
        ON CONFLICT (id) DO UPDATE SET devices = nextcloud_removals.devices + excluded.devices
        """, .integer(Int64(count))))
  }
}
