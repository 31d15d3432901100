-- A device of Nextcloud's push proxy is an identifier together with a user's key: who comes with another key
-- gets a row beside, and takes nothing from anybody. What is there already counts as used now.
-- Times are milliseconds since 1970 UTC.

ALTER TABLE nextcloud_devices DROP CONSTRAINT nextcloud_devices_device_identifier_key;
ALTER TABLE nextcloud_devices ADD UNIQUE (device_identifier, user_key);
-- Whether a notification signed by the key has ever come.
ALTER TABLE nextcloud_devices ADD COLUMN is_used BIGINT NOT NULL DEFAULT 0;
-- The last registration or such notification, to the day.
ALTER TABLE nextcloud_devices ADD COLUMN seen_at BIGINT NOT NULL DEFAULT 0;
-- When a signed notification first named another token.
ALTER TABLE nextcloud_devices ADD COLUMN token_differs_since BIGINT;
UPDATE nextcloud_devices SET is_used = 1, seen_at = CAST(extract(epoch FROM now()) AS BIGINT) * 1000;
ALTER TABLE nextcloud_devices ALTER COLUMN seen_at DROP DEFAULT;
CREATE INDEX nextcloud_devices_by_use ON nextcloud_devices (seen_at);

-- How many devices have gone because they were told to, a provider said so or nobody used them: whatever else is
-- missing was lost. One row, from the first of them on.
CREATE TABLE nextcloud_removals (
  id BIGINT PRIMARY KEY,
  devices BIGINT NOT NULL
);
