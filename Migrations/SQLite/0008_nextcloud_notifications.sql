-- Notifications are kept whole, for apps that fetch them by number. Times are milliseconds since 1970 UTC.

DROP TABLE nextcloud_notifications;

CREATE TABLE nextcloud_notifications (
  user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  nid INTEGER NOT NULL,
  app TEXT NOT NULL,
  created_at INTEGER NOT NULL,                -- when it was sent, the last time
  subject BLOB NOT NULL,                      -- this and what follows: sealed
  message BLOB NOT NULL,
  object_type BLOB NOT NULL,
  object_id BLOB NOT NULL,
  PRIMARY KEY (user_id, nid)
) STRICT;

CREATE INDEX nextcloud_notifications_by_user_and_age ON nextcloud_notifications (user_id, created_at);
CREATE INDEX nextcloud_notifications_by_age ON nextcloud_notifications (created_at);
