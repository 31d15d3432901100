-- Notifications are kept whole, for apps that fetch them by number. Times are milliseconds since 1970 UTC.

DROP TABLE nextcloud_notifications;

CREATE TABLE nextcloud_notifications (
  user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  nid BIGINT NOT NULL,
  app TEXT NOT NULL,
  created_at BIGINT NOT NULL,                 -- when it was sent, the last time
  subject BYTEA NOT NULL,                     -- this and what follows: sealed
  message BYTEA NOT NULL,
  object_type BYTEA NOT NULL,
  object_id BYTEA NOT NULL,
  PRIMARY KEY (user_id, nid)
);

CREATE INDEX nextcloud_notifications_by_user_and_age ON nextcloud_notifications (user_id, created_at);
CREATE INDEX nextcloud_notifications_by_age ON nextcloud_notifications (created_at);
