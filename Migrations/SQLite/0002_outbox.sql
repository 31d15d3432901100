-- Notifications that were promised and that no provider has taken yet.

-- Routes as numbers: a credential with a topic or project.
CREATE TABLE outbox_routes (
  id INTEGER PRIMARY KEY,
  provider TEXT NOT NULL,
  credential TEXT NOT NULL,
  target TEXT NOT NULL,
  UNIQUE (provider, credential, target)
) STRICT;

CREATE TABLE outbox (
  id INTEGER PRIMARY KEY,
  route_id INTEGER NOT NULL REFERENCES outbox_routes (id),
  registration_id INTEGER NOT NULL,           -- a row of e2ee_registrations, which may be gone by now
  registered_at INTEGER NOT NULL,             -- of that row when the notification was for it
  push BLOB NOT NULL,                         -- sealed: token, payload and all
  collapse_hash INTEGER,                      -- 64 bits of a keyed hash of registration and collapse id
  created_at INTEGER NOT NULL,
  due_at INTEGER NOT NULL,                    -- while it is being sent: when it may be taken over
  expires_at INTEGER NOT NULL,
  attempts INTEGER NOT NULL                   -- also tells a sender whether the entry is still its own
) STRICT;

CREATE INDEX outbox_by_route ON outbox (route_id, due_at);

-- A newer notification makes the one with the same collapse id worthless.
CREATE UNIQUE INDEX outbox_by_collapse ON outbox (collapse_hash) WHERE collapse_hash IS NOT NULL;
