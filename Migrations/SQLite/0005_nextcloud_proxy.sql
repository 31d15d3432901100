-- The devices that Nextcloud's push proxy sends to.
-- Times are milliseconds since 1970 UTC.

CREATE TABLE nextcloud_devices (
  id INTEGER PRIMARY KEY,
  device_identifier BLOB NOT NULL UNIQUE,     -- SHA-512 of what only the server knows
  user_key BLOB NOT NULL,                     -- SubjectPublicKeyInfo of who owns the identifier
  token BLOB NOT NULL,                        -- sealed, exactly as it was sent
  token_hash BLOB NOT NULL,                   -- SHA-512 of the same, as servers know it
  kind INTEGER NOT NULL,                      -- 1 APNs, 2 FCM, 3 PushKit alone
  app TEXT NOT NULL,                          -- name of the entry that the app was recognized by
  target TEXT,                                -- APNs topic, or FCM project (NULL: the default one)
  registered_at INTEGER NOT NULL,
  failure TEXT,                               -- reason of the last failed delivery
  failed_at INTEGER
) STRICT;
