-- Web Push subscriptions of the Nextcloud server side's users: one of each app password, and one that was made with
-- the account's API key.
CREATE TABLE nextcloud_webpush (
  id $fresh_id,
  user_id $int NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  app_password_id $int UNIQUE REFERENCES app_passwords (id) ON DELETE CASCADE,
  api_key_hash $bytes,                        -- of the user, if it was that key: another key ends the subscription
  endpoint_hash $bytes NOT NULL,              -- keyed hash of the URL
  token $bytes NOT NULL,                      -- sealed: the URL and the keys
  app_types $text NOT NULL,                   -- as the app has sent it
  activation_hash $bytes,                     -- keyed hash of what the app has to send back; NULL once it has
  activated_at $int,
  created_at $int NOT NULL,
  registered_at $int NOT NULL,                -- the last time
  delivered_at $int,                          -- to the day, as in 0003_history.sql
  failure $text,                              -- why a push service last refused a notification
  failed_at $int
) $strict;

CREATE INDEX nextcloud_webpush_by_user ON nextcloud_webpush (user_id);
CREATE INDEX nextcloud_webpush_by_endpoint ON nextcloud_webpush (endpoint_hash);
CREATE UNIQUE INDEX nextcloud_webpush_by_api_key ON nextcloud_webpush (user_id) WHERE app_password_id IS NULL;
