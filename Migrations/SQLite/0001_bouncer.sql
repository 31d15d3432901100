-- The bouncer's side of Zulip: chat servers, their realms, and the devices of those realms.
-- Times are milliseconds since 1970 UTC, flags 0 or 1.

CREATE TABLE metadata (
  name TEXT PRIMARY KEY,
  value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE remote_servers (
  id INTEGER PRIMARY KEY,
  uuid TEXT NOT NULL UNIQUE,                  -- lower case, with hyphens
  hostname TEXT NOT NULL,                     -- as the server spelled it
  hostname_key TEXT NOT NULL UNIQUE,          -- in lower case
  contact_email TEXT NOT NULL,
  key_hash BLOB NOT NULL,                     -- keyed hash; the key itself is kept nowhere
  previous_key_hash BLOB,                     -- still accepted until previous_key_until
  previous_key_until INTEGER,
  deactivated_at INTEGER,
  last_request_at INTEGER,
  last_version TEXT,
  last_merge_base TEXT,
  last_api_feature_level INTEGER,
  last_audit_log_update_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE remote_server_audit_log (
  id INTEGER PRIMARY KEY,
  server_id INTEGER NOT NULL REFERENCES remote_servers (id),
  event_type INTEGER NOT NULL,
  event_time INTEGER NOT NULL
) STRICT;

CREATE TABLE remote_realms (
  id INTEGER PRIMARY KEY,
  server_id INTEGER NOT NULL REFERENCES remote_servers (id),
  uuid TEXT NOT NULL UNIQUE,                  -- lower case, with hyphens
  owner_secret_hash BLOB NOT NULL,            -- keyed hash
  realm_id INTEGER,                           -- the realm's id at its server; NULL if never told
  host TEXT NOT NULL,
  name TEXT NOT NULL,
  is_system_bot_realm INTEGER NOT NULL,
  authentication_methods TEXT NOT NULL,       -- JSON object of flags
  org_type INTEGER NOT NULL,
  is_deactivated INTEGER NOT NULL,
  is_locally_deleted INTEGER NOT NULL,        -- missing from the server's latest list
  date_created INTEGER NOT NULL,
  last_request_at INTEGER
) STRICT;

CREATE INDEX remote_realms_by_server ON remote_realms (server_id);

-- What chat servers report of themselves. `remote_id` is the row's id there, `realm_id` the realm's
-- id there (remote_realms knows it too): so nothing has to be filled in afterwards. A row without
-- `remote_id` was made here.
CREATE TABLE remote_realm_audit_log (
  id INTEGER PRIMARY KEY,
  server_id INTEGER NOT NULL REFERENCES remote_servers (id),
  remote_id INTEGER,
  realm_id INTEGER NOT NULL,
  event_type INTEGER NOT NULL,
  event_time INTEGER NOT NULL,
  backfilled INTEGER NOT NULL,
  extra_data TEXT NOT NULL,                   -- JSON
  UNIQUE (server_id, remote_id)
) STRICT;

CREATE TABLE remote_realm_counts (
  server_id INTEGER NOT NULL REFERENCES remote_servers (id),
  remote_id INTEGER NOT NULL,
  realm_id INTEGER NOT NULL,
  property TEXT NOT NULL,
  subgroup TEXT,
  end_time INTEGER NOT NULL,
  value INTEGER NOT NULL,
  PRIMARY KEY (server_id, remote_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE remote_installation_counts (
  server_id INTEGER NOT NULL REFERENCES remote_servers (id),
  remote_id INTEGER NOT NULL,
  property TEXT NOT NULL,
  subgroup TEXT,
  end_time INTEGER NOT NULL,
  value INTEGER NOT NULL,
  PRIMARY KEY (server_id, remote_id)
) STRICT, WITHOUT ROWID;

-- The public keys that registrations were sealed to, so that a registration names its key in a byte.
CREATE TABLE bouncer_keys (
  id INTEGER PRIMARY KEY,
  public_key TEXT NOT NULL UNIQUE             -- base64, as callers spell it
) STRICT;

-- One row per token and realm, by far the most numerous rows: about 230 bytes each, its one full
-- index included.
CREATE TABLE e2ee_registrations (
  id INTEGER PRIMARY KEY,
  realm_id INTEGER NOT NULL REFERENCES remote_realms (id),
  token_id INTEGER NOT NULL,                  -- first 8 bytes of the token's SHA-256, big-endian, signed
  kind INTEGER NOT NULL,                      -- 1 APNs, 2 FCM
  token BLOB NOT NULL,                        -- sealed
  token_hash INTEGER NOT NULL,                -- 64 bits of a keyed hash of the canonical spelling
  ios_app_id TEXT,
  bouncer_key_id INTEGER REFERENCES bouncer_keys (id),  -- NULL: imported
  registered_at INTEGER NOT NULL,
  expired_at INTEGER,
  failure TEXT,                               -- reason of the last failed delivery
  failed_at INTEGER,
  UNIQUE (realm_id, token_id)
) STRICT;

CREATE INDEX e2ee_registrations_expired ON e2ee_registrations (expired_at) WHERE expired_at IS NOT NULL;
