-- A device of Nextcloud's push proxy is an identifier together with a user's key: who comes with another key
-- gets a row beside, and takes nothing from anybody. What is there already counts as used now.
-- Times are milliseconds since 1970 UTC.

CREATE TABLE nextcloud_devices_by_key (
  id INTEGER PRIMARY KEY AUTOINCREMENT,       -- never given twice: the outbox refers to it
  device_identifier BLOB NOT NULL,            -- SHA-512 of what only the server knows
  user_key BLOB NOT NULL,                     -- SubjectPublicKeyInfo that its notifications are signed with
  token BLOB NOT NULL,                        -- sealed, exactly as it was sent
  token_hash BLOB NOT NULL,                   -- SHA-512 of the same, as servers know it
  kind INTEGER NOT NULL,                      -- 1 APNs, 2 FCM, 3 PushKit alone
  app TEXT NOT NULL,                          -- name of the entry that the app was recognized by
  target TEXT,                                -- APNs topic, or FCM project (NULL: the default one)
  registered_at INTEGER NOT NULL,
  is_used INTEGER NOT NULL DEFAULT 0,         -- whether a notification signed by the key has ever come
  seen_at INTEGER NOT NULL,                   -- the last registration or such notification, to the day
  token_differs_since INTEGER,                -- when a signed notification first named another token
  failure TEXT,                               -- reason of the last failed delivery
  failed_at INTEGER,
  UNIQUE (device_identifier, user_key)
) STRICT;
INSERT INTO nextcloud_devices_by_key
  (id, device_identifier, user_key, token, token_hash, kind, app, target, registered_at, is_used, seen_at,
  failure, failed_at)
SELECT id, device_identifier, user_key, token, token_hash, kind, app, target, registered_at, 1,
  CAST(strftime('%s', 'now') AS INTEGER) * 1000, failure, failed_at
FROM nextcloud_devices;
DROP TABLE nextcloud_devices;
ALTER TABLE nextcloud_devices_by_key RENAME TO nextcloud_devices;
CREATE INDEX nextcloud_devices_by_use ON nextcloud_devices (seen_at);

-- How many devices have gone because they were told to, a provider said so or nobody used them: whatever else is
-- missing was lost. One row, from the first of them on.
CREATE TABLE nextcloud_removals (
  id INTEGER PRIMARY KEY,
  devices INTEGER NOT NULL
) STRICT;
