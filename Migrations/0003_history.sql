-- Statistics: what has become of notifications, hour by hour, and when each registration last got one.

-- `event` says what `subject` and `detail` are:
--   accepted    a route, how long it took (a bucket: half the power of two of the milliseconds)
--   refused     a route, or a provider of which no credential serves the topic or project; the reason
--   postponed   a route, the reason: tried in vain, and tried again later
--   given_up    a route, nothing: it waited in the outbox for too long
--   sent        a row of remote_servers, nothing: notifications that a chat server has handed in
--   failed      a row of remote_servers, nothing: those of them that were refused at once
--   registered  a bouncer key in base64, nothing
CREATE TABLE hourly_counts (
  event $text NOT NULL,
  hour $int NOT NULL,                         -- hours since 1970 UTC
  subject $text NOT NULL,
  detail $text NOT NULL,
  count $int NOT NULL,
  PRIMARY KEY (event, hour, subject, detail)
) $strict_by_key;

-- The last time a provider took a notification, to the day: the first of the day is written down, and the first
-- after a failure.
ALTER TABLE e2ee_registrations ADD COLUMN delivered_at $int;
ALTER TABLE legacy_registrations ADD COLUMN delivered_at $int;
ALTER TABLE nextcloud_devices ADD COLUMN delivered_at $int;
