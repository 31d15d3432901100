-- The server side of Nextcloud: users' key pairs, their phones, and pushes that no proxy has taken yet.
-- Times are milliseconds since 1970 UTC.

-- Device identifiers are made of an app password's id, so from now on none is given twice.
CREATE TABLE app_passwords_numbered (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  password_hash BLOB NOT NULL UNIQUE,         -- keyed hash; the password itself is kept nowhere
  created_at INTEGER NOT NULL
) STRICT;
INSERT INTO app_passwords_numbered SELECT id, user_id, name, password_hash, created_at FROM app_passwords;
DROP TABLE app_passwords;
ALTER TABLE app_passwords_numbered RENAME TO app_passwords;
CREATE INDEX app_passwords_by_user ON app_passwords (user_id);

-- What signs for a user at push proxies, made when it is first needed.
CREATE TABLE nextcloud_keys (
  user_id INTEGER PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
  public_key TEXT NOT NULL,                   -- PEM
  private_key BLOB NOT NULL,                  -- PEM, sealed
  created_at INTEGER NOT NULL
) STRICT;

-- The phones that get pushes, one per app password.
CREATE TABLE nextcloud_registrations (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  app_password_id INTEGER NOT NULL UNIQUE REFERENCES app_passwords (id) ON DELETE CASCADE,
  device_identifier TEXT NOT NULL,            -- base64, as proxies know the phone
  device_key TEXT NOT NULL,                   -- PEM: what its pushes are encrypted with
  push_token_hash TEXT NOT NULL,
  proxy_server TEXT NOT NULL,                 -- as the phone named it
  proxy_url TEXT NOT NULL,                    -- without slashes at its end
  app_kind INTEGER NOT NULL,                  -- 1 Talk, 2 Files, 3 unknown
  created_at INTEGER NOT NULL,
  registered_at INTEGER NOT NULL              -- the last time
) STRICT;

CREATE INDEX nextcloud_registrations_by_user ON nextcloud_registrations (user_id);

-- Of which app a user's notifications are, so that they can be taken back by number.
CREATE TABLE nextcloud_notifications (
  user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  nid INTEGER NOT NULL,
  app TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (user_id, nid)
) STRICT, WITHOUT ROWID;

CREATE INDEX nextcloud_notifications_by_user_and_age ON nextcloud_notifications (user_id, created_at);
CREATE INDEX nextcloud_notifications_by_age ON nextcloud_notifications (created_at);

-- Pushes that a proxy has yet to take. An entry holds hashes and what only the phone can read.
CREATE TABLE nextcloud_pushes (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  registration_id INTEGER NOT NULL REFERENCES nextcloud_registrations (id) ON DELETE CASCADE,
  registered_at INTEGER NOT NULL,             -- of the registration, when the entry was made
  proxy_url TEXT NOT NULL,
  device_identifier TEXT NOT NULL,
  entry TEXT NOT NULL,                        -- JSON, as it goes over the wire
  kind INTEGER NOT NULL,                      -- 1 a notification, 2 a deletion, 3 the deletion of all
  nid INTEGER,                                -- of a notification
  created_at INTEGER NOT NULL,
  due_at INTEGER NOT NULL,                    -- while it is being sent: when it may be taken over
  expires_at INTEGER NOT NULL,
  attempts INTEGER NOT NULL                   -- also tells a sender whether the push is still its own
) STRICT;

CREATE INDEX nextcloud_pushes_by_due ON nextcloud_pushes (due_at);
CREATE INDEX nextcloud_pushes_by_proxy ON nextcloud_pushes (proxy_url, due_at);
CREATE INDEX nextcloud_pushes_by_registration ON nextcloud_pushes (registration_id);
CREATE INDEX nextcloud_pushes_by_expiry ON nextcloud_pushes (expires_at);
