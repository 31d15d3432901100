-- Bringing registrations in from a Zulip bouncer, and how far its devices have come since.
-- Times are milliseconds since 1970 UTC.

-- The run that is under way, or the latest one.
CREATE TABLE zulip_migration_runs (
  id INTEGER PRIMARY KEY,                     -- always 1
  source TEXT NOT NULL,                       -- which database or which files; no credentials
  started_at INTEGER NOT NULL,
  first_legacy_id INTEGER NOT NULL,           -- what the run brings into legacy_registrations has this id or a later one
  finished_at INTEGER
) STRICT;

-- How far it is, written together with what was brought in.
CREATE TABLE zulip_migration_progress (
  table_name TEXT PRIMARY KEY,
  position INTEGER NOT NULL,                  -- the last id done, or how many bytes of a file
  counts TEXT NOT NULL                        -- JSON
) STRICT, WITHOUT ROWID;

-- What the source's servers and realms are here.
CREATE TABLE zulip_migration_servers (
  id INTEGER PRIMARY KEY,                     -- there
  server_id INTEGER NOT NULL REFERENCES remote_servers (id)
) STRICT;

CREATE TABLE zulip_migration_realms (
  id INTEGER PRIMARY KEY,                     -- there
  server_id INTEGER NOT NULL REFERENCES remote_servers (id),
  realm_id INTEGER NOT NULL REFERENCES remote_realms (id)
) STRICT;

CREATE TABLE zulip_migration_rejects (
  id INTEGER PRIMARY KEY,
  table_name TEXT NOT NULL,
  row_id INTEGER NOT NULL,                    -- there
  reason TEXT NOT NULL
) STRICT;

-- Devices by day. A realm has a row only for days on which its numbers changed.
CREATE TABLE migration_history (
  day INTEGER NOT NULL,                       -- days since 1970 UTC
  server_id INTEGER NOT NULL,
  realm_id INTEGER NOT NULL,                  -- 0: legacy devices whose realm is not known yet
  legacy INTEGER NOT NULL,
  e2ee INTEGER NOT NULL,
  PRIMARY KEY (day, server_id, realm_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX migration_history_by_realm ON migration_history (server_id, realm_id, day);
