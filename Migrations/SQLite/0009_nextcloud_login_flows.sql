-- Apps that wait for their user to let them sign in. Times are milliseconds since 1970 UTC.

CREATE TABLE nextcloud_login_flows (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  poll_hash BLOB NOT NULL UNIQUE,             -- keyed hash of what the app asks with
  login_hash BLOB NOT NULL UNIQUE,            -- keyed hash of what it is granted with
  client TEXT NOT NULL,                       -- what the app calls itself
  address_hash BLOB NOT NULL,                 -- keyed hash of the address it called from
  user_id INTEGER REFERENCES users (id) ON DELETE CASCADE,  -- who has granted it
  created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX nextcloud_login_flows_by_age ON nextcloud_login_flows (created_at);
CREATE INDEX nextcloud_login_flows_by_user ON nextcloud_login_flows (user_id);
