-- What providers have said of tokens while they called too many dead to be believed. An entry ends its registration
-- when the provider says so again much later, or the operator believes it. Times are milliseconds since 1970 UTC.
CREATE TABLE held_deaths (
  kind INTEGER NOT NULL,                      -- 1 E2EE, 2 legacy, 3 Nextcloud
  registration_id INTEGER NOT NULL,           -- a row of that kind, which may be gone by now
  registered_at INTEGER NOT NULL,             -- of that row when the notification was for it
  route_id INTEGER NOT NULL REFERENCES outbox_routes (id),
  reason TEXT NOT NULL,
  holds_before INTEGER,                       -- true of whatever was registered with the token before then
  first_said_at INTEGER NOT NULL,
  PRIMARY KEY (kind, registration_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX held_deaths_by_route ON held_deaths (route_id, kind, reason, first_said_at);
