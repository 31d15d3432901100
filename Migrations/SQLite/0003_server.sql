-- The built-in chat-server side: realms, their users, the users' devices.
-- Times are milliseconds since 1970 UTC, flags 0 or 1.

CREATE TABLE realms (
  id INTEGER PRIMARY KEY,
  uuid TEXT NOT NULL UNIQUE,                  -- lower case, with hyphens
  name TEXT NOT NULL,
  url TEXT NOT NULL,
  require_e2ee INTEGER NOT NULL,              -- legacy notifications then carry no content
  owner_secret BLOB NOT NULL,                 -- sealed; what its bouncer knows the realm's owner by
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE users (
  id INTEGER PRIMARY KEY,
  realm_id INTEGER NOT NULL REFERENCES realms (id),
  user_id INTEGER NOT NULL,                   -- its number in the chat
  uuid TEXT NOT NULL,
  email TEXT NOT NULL,
  email_key TEXT NOT NULL UNIQUE,             -- in lower case
  username TEXT NOT NULL,
  username_key TEXT NOT NULL UNIQUE,          -- in lower case
  api_key_hash BLOB NOT NULL,                 -- keyed hash; the key itself is kept nowhere
  last_event INTEGER NOT NULL,                -- number of the newest of its events; also locks its devices
  created_at INTEGER NOT NULL,
  UNIQUE (realm_id, user_id)
) STRICT;

CREATE TABLE app_passwords (
  id INTEGER PRIMARY KEY,
  user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  password_hash BLOB NOT NULL UNIQUE,         -- keyed hash; the password itself is kept nowhere
  created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX app_passwords_by_user ON app_passwords (user_id);

-- A device id is never given twice.
CREATE TABLE devices (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  push_key BLOB,                              -- sealed
  push_key_id INTEGER,
  kind INTEGER,                               -- 1 APNs, 2 FCM
  token_id INTEGER,                           -- of the token that gets notifications
  pending_token_id INTEGER,                   -- of the token that its bouncer has yet to accept
  token_updated_at INTEGER,
  error_code TEXT,                            -- why the bouncer refused the pending one
  created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX devices_by_user ON devices (user_id);

-- Registrations on their way to the bouncer, one per device.
CREATE TABLE device_registrations (
  device_id INTEGER PRIMARY KEY REFERENCES devices (id) ON DELETE CASCADE,
  token_id INTEGER NOT NULL,
  bouncer_public_key TEXT NOT NULL,
  encrypted_push_registration TEXT NOT NULL,  -- opaque here: sealed to the bouncer
  requested_at INTEGER NOT NULL,
  due_at INTEGER NOT NULL,                    -- while it is being sent: when it may be taken over
  attempts INTEGER NOT NULL                   -- also tells a sender whether the job is still its own
) STRICT;

CREATE INDEX device_registrations_by_due ON device_registrations (due_at);

-- What has happened to a user's devices, numbered per user without gaps.
CREATE TABLE device_events (
  user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  device_id INTEGER NOT NULL,
  operation INTEGER NOT NULL,                 -- 1 added, 2 removed, 3 updated
  changed INTEGER NOT NULL,                   -- which of the following were, a bit for each
  push_key_id INTEGER,
  token_id INTEGER,
  pending_token_id INTEGER,
  token_updated_at INTEGER,
  error_code TEXT,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (user_id, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX device_events_by_age ON device_events (created_at);

-- Clients that follow those events.
CREATE TABLE event_queues (
  id TEXT PRIMARY KEY,
  user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  follows_devices INTEGER NOT NULL,           -- whether its client wants those events
  seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX event_queues_by_user ON event_queues (user_id);
