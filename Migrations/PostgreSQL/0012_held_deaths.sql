-- What providers have said of tokens while they called too many dead to be believed. An entry ends its registration
-- when the provider says so again much later, or the operator believes it. Times are milliseconds since 1970 UTC.
CREATE TABLE held_deaths (
  kind BIGINT NOT NULL,                      -- 1 E2EE, 2 legacy, 3 Nextcloud
  registration_id BIGINT NOT NULL,           -- a row of that kind, which may be gone by now
  registered_at BIGINT NOT NULL,             -- of that row when the notification was for it
  route_id BIGINT NOT NULL REFERENCES outbox_routes (id),
  reason TEXT NOT NULL,
  holds_before BIGINT,                        -- true of whatever was registered with the token before then
  first_said_at BIGINT NOT NULL,
  PRIMARY KEY (kind, registration_id)
);

CREATE INDEX held_deaths_by_route ON held_deaths (route_id, kind, reason, first_said_at);
