-- Registrations in clear, of old apps: at the bouncer, and at the built-in chat-server side.
-- Times are milliseconds since 1970 UTC.

CREATE TABLE legacy_registrations (
  id INTEGER PRIMARY KEY,
  server_id INTEGER NOT NULL REFERENCES remote_servers (id),
  realm_id INTEGER REFERENCES remote_realms (id),  -- NULL: not told yet
  user_id INTEGER,                            -- either this, as old servers do,
  user_uuid TEXT,                             -- or this; lower case, with hyphens
  kind INTEGER NOT NULL,                      -- 1 APNs, 2 FCM
  token BLOB NOT NULL,                        -- sealed, as it was first spelled
  token_hash INTEGER NOT NULL,                -- as in e2ee_registrations: the same for the same token
  ios_app_id TEXT,
  registered_at INTEGER NOT NULL,
  failure TEXT,                               -- reason of the last failed delivery
  failed_at INTEGER,
  CHECK ((user_id IS NULL) <> (user_uuid IS NULL))
) STRICT;

CREATE UNIQUE INDEX legacy_registrations_by_user_id
  ON legacy_registrations (server_id, user_id, kind, token_hash) WHERE user_id IS NOT NULL;
CREATE UNIQUE INDEX legacy_registrations_by_user_uuid
  ON legacy_registrations (server_id, user_uuid, kind, token_hash) WHERE user_uuid IS NOT NULL;
CREATE INDEX legacy_registrations_by_token ON legacy_registrations (token_hash);
CREATE INDEX e2ee_registrations_by_token ON e2ee_registrations (token_hash);

-- An entry of the outbox may be for either, or for a device of the Nextcloud proxy.
ALTER TABLE outbox ADD COLUMN registration_kind INTEGER NOT NULL DEFAULT 1;  -- 1 E2EE, 2 legacy, 3 Nextcloud
CREATE INDEX outbox_by_legacy_registration ON outbox (registration_id) WHERE registration_kind = 2;

-- When a node last had the key in its folder: another one that has not yet must not refuse it for good.
ALTER TABLE bouncer_keys ADD COLUMN announced_at INTEGER;

-- The tokens of a user's old apps.
CREATE TABLE legacy_tokens (
  id INTEGER PRIMARY KEY,
  user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  kind INTEGER NOT NULL,                      -- 1 APNs, 2 FCM
  token BLOB NOT NULL,                        -- sealed, as it was first spelled
  token_hash INTEGER NOT NULL,                -- 64 bits of a keyed hash of the canonical spelling
  ios_app_id TEXT,
  created_at INTEGER NOT NULL,
  UNIQUE (user_id, kind, token_hash)
) STRICT;

-- What the bouncer has yet to be told: that a token, or all tokens of a user, are no longer to be used.
CREATE TABLE legacy_unregistrations (
  id INTEGER PRIMARY KEY,
  realm_uuid TEXT NOT NULL,
  user_uuid TEXT NOT NULL,
  user_id INTEGER NOT NULL,                   -- its number in the chat
  kind INTEGER,                               -- NULL, as the next two: all of them
  token BLOB,                                 -- sealed
  token_hash INTEGER,
  requested_at INTEGER NOT NULL,
  due_at INTEGER NOT NULL,                    -- while it is being sent: when it may be taken over
  attempts INTEGER NOT NULL,                  -- also tells a sender whether the job is still its own
  failure TEXT                                -- why the bouncer did not take it the last time
) STRICT;

CREATE INDEX legacy_unregistrations_by_due ON legacy_unregistrations (due_at);
CREATE INDEX legacy_unregistrations_by_user ON legacy_unregistrations (user_uuid);
