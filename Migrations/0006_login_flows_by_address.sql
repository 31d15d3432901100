-- How many apps of an address wait to be let in, and which address has most.
CREATE INDEX nextcloud_login_flows_by_address ON nextcloud_login_flows (address_hash, user_id, created_at);
