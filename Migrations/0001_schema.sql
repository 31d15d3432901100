-- Everything that the program keeps, for SQLite and PostgreSQL alike. What differs between them is written as a
-- token, which stands for: $id a row's number; $fresh_id one that is never given twice; $int 64 bits with sign;
-- $bytes; $text, compared and sorted by its bytes; $strict and $strict_by_key what ends a table (the latter has
-- no number of its own and lies in the order of its key). Times are milliseconds since 1970 UTC, flags 0 or 1.

CREATE TABLE metadata (
  name $text PRIMARY KEY,
  value $bytes NOT NULL
) $strict_by_key;

-- Zulip's bouncer: chat servers, their realms, the devices of those realms
-- ------------------------------------------------------------------------

CREATE TABLE remote_servers (
  id $id,
  uuid $text NOT NULL UNIQUE,                 -- lower case, with hyphens
  hostname $text NOT NULL,                    -- as the server spelled it
  hostname_key $text NOT NULL UNIQUE,         -- in lower case
  contact_email $text NOT NULL,
  key_hash $bytes NOT NULL,                   -- keyed hash; the key itself is kept nowhere
  previous_key_hash $bytes,                   -- still accepted until previous_key_until
  previous_key_until $int,
  deactivated_at $int,
  deactivated_by_itself $int NOT NULL DEFAULT 0, -- 0 also if it is not deactivated
  last_request_at $int,
  last_version $text,
  last_merge_base $text,
  last_api_feature_level $int,
  last_audit_log_update_at $int,
  -- How far its reports have come. The rows themselves do not stay.
  last_realm_count_id $int NOT NULL DEFAULT 0,
  last_installation_count_id $int NOT NULL DEFAULT 0,
  last_audit_event_id $int NOT NULL DEFAULT 0,
  report_rows $int NOT NULL DEFAULT 0,        -- how many rows of its reports are kept
  unknown_named_at $int,                      -- when it first named devices that nobody knows, but perhaps the upstream bouncer
  created_at $int NOT NULL,
  updated_at $int NOT NULL
) $strict;

-- Chat servers with a link to the upstream bouncer (`upstream.url`).
CREATE TABLE upstream_links (
  server_id $int PRIMARY KEY REFERENCES remote_servers (id),
  org_key $bytes,                             -- sealed: what it signs in with there; NULL until its next call
  next_key $bytes,                            -- sealed: perhaps that instead, if a change of keys was interrupted
  realms $bytes,                              -- sealed: its realms as it last reported them, JSON
  enabled_at $int NOT NULL,
  due_at $int NOT NULL,                       -- of the next report; while one is sent: when it may be taken over
  attempts $int NOT NULL,                     -- also tells a sender whether the report is still its own
  reported_at $int,                           -- the last report that was taken
  failure $text,                              -- why a later one was not
  given_realm_count_id $int NOT NULL DEFAULT 0, -- how far it has taken them
  given_installation_count_id $int NOT NULL DEFAULT 0,
  given_audit_event_id $int NOT NULL DEFAULT 0,
  refused_at $int                             -- when it last refused to send for the server, to the hour; NULL: it sends
) $strict;

-- What the upstream bouncer has yet to be told: that a token, or all tokens of a user, are no longer to be used.
CREATE TABLE upstream_unregistrations (
  id $fresh_id,                               -- never given twice: a late answer ends no newer one
  server_id $int NOT NULL REFERENCES remote_servers (id),
  user_id $int,
  user_uuid $text,
  kind $int,                                  -- NULL, as the next: all of them
  token_hash $int,
  form $bytes NOT NULL,                       -- sealed: the call's parameters
  due_at $int NOT NULL,                       -- while it is being sent: when it may be taken over
  attempts $int NOT NULL                      -- also tells a sender whether the job is still its own
) $strict;

CREATE INDEX upstream_unregistrations_by_due ON upstream_unregistrations (due_at, server_id);
CREATE INDEX upstream_unregistrations_by_server ON upstream_unregistrations (server_id);

CREATE TABLE remote_server_audit_log (
  id $id,
  server_id $int NOT NULL REFERENCES remote_servers (id),
  event_type $int NOT NULL,
  event_time $int NOT NULL
) $strict;

CREATE TABLE remote_realms (
  id $id,
  server_id $int NOT NULL REFERENCES remote_servers (id),
  uuid $text NOT NULL UNIQUE,                 -- lower case, with hyphens
  owner_secret_hash $bytes NOT NULL,          -- keyed hash
  realm_id $int,                              -- the realm's id at its server; NULL if never told
  host $text NOT NULL,
  name $text NOT NULL,
  is_system_bot_realm $int NOT NULL,
  authentication_methods $text NOT NULL,      -- JSON object of flags
  org_type $int NOT NULL,
  is_deactivated $int NOT NULL,
  is_locally_deleted $int NOT NULL,           -- missing from the server's latest list
  date_created $int NOT NULL,
  last_request_at $int,
  released_until $int                         -- let go by the operator: until then it goes to whoever brings it next
) $strict;

CREATE INDEX remote_realms_by_server ON remote_realms (server_id);

-- What chat servers report of themselves. `remote_id` is the row's id there, `realm_id` the realm's
-- id there (remote_realms knows it too): so nothing has to be filled in afterwards. A row without
-- `remote_id` was made here.
CREATE TABLE remote_realm_audit_log (
  id $id,
  server_id $int NOT NULL REFERENCES remote_servers (id),
  remote_id $int,
  realm_id $int NOT NULL,
  event_type $int NOT NULL,
  event_time $int NOT NULL,
  backfilled $int NOT NULL,
  extra_data $text NOT NULL,                  -- JSON
  UNIQUE (server_id, remote_id)
) $strict;

CREATE INDEX remote_realm_audit_log_by_time ON remote_realm_audit_log (event_time);

CREATE TABLE remote_realm_counts (
  server_id $int NOT NULL REFERENCES remote_servers (id),
  remote_id $int NOT NULL,
  realm_id $int NOT NULL,
  property $text NOT NULL,
  subgroup $text,
  end_time $int NOT NULL,
  value $int NOT NULL,
  PRIMARY KEY (server_id, remote_id)
) $strict_by_key;

CREATE INDEX remote_realm_counts_by_time ON remote_realm_counts (end_time);

CREATE TABLE remote_installation_counts (
  server_id $int NOT NULL REFERENCES remote_servers (id),
  remote_id $int NOT NULL,
  property $text NOT NULL,
  subgroup $text,
  end_time $int NOT NULL,
  value $int NOT NULL,
  PRIMARY KEY (server_id, remote_id)
) $strict_by_key;

CREATE INDEX remote_installation_counts_by_time ON remote_installation_counts (end_time);

-- The public keys that registrations were sealed to, so that a registration names its key in a byte.
CREATE TABLE bouncer_keys (
  id $id,
  public_key $text NOT NULL UNIQUE            -- base64, as callers spell it
) $strict;

-- The public keys that each node has in its folder: another node must not refuse these for good
CREATE TABLE node_bouncer_keys (
  node $text,                                 -- UUID of the process
  public_key $text,
  announced_at $int NOT NULL,                 -- by that machine's clock
  PRIMARY KEY (node, public_key)
) $strict_by_key;

-- Delivery: notifications that were promised and that no provider has taken yet
-- -----------------------------------------------------------------------------

-- Routes as numbers: a credential with a topic or project, for each owner with something waiting there.
CREATE TABLE outbox_routes (
  id $id,
  provider $text NOT NULL,
  credential $text NOT NULL,
  target $text NOT NULL,
  owner $int NOT NULL DEFAULT 0,              -- who answers for what waits: a chat server, an address; 0 nobody
  UNIQUE (provider, credential, target, owner)
) $strict;

CREATE TABLE outbox (
  id $fresh_id,                               -- never given twice: a late removal removes no newer one
  route_id $int NOT NULL REFERENCES outbox_routes (id),
  registration_id $int NOT NULL,              -- which may be gone by now
  wire $int NOT NULL,                         -- of the registration
  registered_at $int NOT NULL,                -- of that row when the notification was for it
  push $bytes NOT NULL,                       -- sealed: token, payload and all
  collapse_hash $int,                         -- 64 bits of a keyed hash of registration and collapse id
  created_at $int NOT NULL,
  due_at $int NOT NULL,                       -- while it is being sent: when it may be taken over
  expires_at $int NOT NULL,
  attempts $int NOT NULL,                     -- also tells a sender whether the entry is still its own
  is_background $int NOT NULL DEFAULT 0,      -- whether it gives way to what shows when its device has too many waiting
  reason $text,                               -- why it waits, as of its last try
  doubts $int NOT NULL DEFAULT 0              -- tries after which the provider may have it, and would not know it again
) $strict;

CREATE INDEX outbox_by_route ON outbox (route_id, due_at, wire, reason);
CREATE INDEX outbox_by_registration ON outbox (registration_id);

-- A newer notification makes the one with the same collapse id worthless.
CREATE UNIQUE INDEX outbox_by_collapse ON outbox (collapse_hash) WHERE collapse_hash IS NOT NULL;

-- Accounts: realms, their users, what they sign in with
-- -----------------------------------------------------

CREATE TABLE realms (
  id $id,
  uuid $text NOT NULL UNIQUE,                 -- lower case, with hyphens
  name $text NOT NULL,
  url $text NOT NULL,
  require_e2ee $int NOT NULL,                 -- legacy notifications then carry no content
  owner_secret $bytes NOT NULL,               -- sealed; what its bouncer knows the realm's owner by
  created_at $int NOT NULL
) $strict;

CREATE TABLE users (
  id $id,
  realm_id $int NOT NULL REFERENCES realms (id),
  user_id $int NOT NULL,                      -- its number in the chat
  uuid $text NOT NULL,
  email $text NOT NULL,
  email_key $text NOT NULL UNIQUE,            -- in lower case
  username $text NOT NULL,
  username_key $text NOT NULL UNIQUE,         -- in lower case
  api_key_hash $bytes NOT NULL,               -- keyed hash; the key itself is kept nowhere
  last_event $int NOT NULL,                   -- number of the newest of its events; also locks its devices
  created_at $int NOT NULL,
  UNIQUE (realm_id, user_id)
) $strict;

-- Identifiers of Nextcloud devices are made of these ids: none is given twice.
CREATE TABLE app_passwords (
  id $fresh_id,
  user_id $int NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  name $text NOT NULL,
  password_hash $bytes NOT NULL UNIQUE,       -- keyed hash; the password itself is kept nowhere
  created_at $int NOT NULL
) $strict;

CREATE INDEX app_passwords_by_user ON app_passwords (user_id);

-- Apps that wait for their user to let them sign in.
CREATE TABLE nextcloud_login_flows (
  id $fresh_id,
  poll_hash $bytes NOT NULL UNIQUE,           -- keyed hash of what the app asks with
  login_hash $bytes NOT NULL UNIQUE,          -- keyed hash of what it is granted with
  client $text NOT NULL,                      -- what the app calls itself
  address_hash $bytes NOT NULL,               -- keyed hash of the address it called from
  user_id $int REFERENCES users (id) ON DELETE CASCADE,  -- who has granted it
  created_at $int NOT NULL
) $strict;

CREATE INDEX nextcloud_login_flows_by_age ON nextcloud_login_flows (created_at);
CREATE INDEX nextcloud_login_flows_by_user ON nextcloud_login_flows (user_id);
-- How many apps of an address wait to be let in, and which address has most.
CREATE INDEX nextcloud_login_flows_by_address ON nextcloud_login_flows (address_hash, user_id, created_at);

-- Registrations: a token of a provider, for an app, that somebody has registered
-- -----------------------------------------------------------------------------

-- By far the most numerous rows. Of the columns by which a wire knows its registrations the others are NULL, which takes
-- a byte each.
CREATE TABLE registrations (
  id $fresh_id,                               -- never given twice: the outbox refers to it
  wire $int NOT NULL,                         -- 1 Zulip, end-to-end encrypted; 2 Zulip, legacy; 3 Nextcloud's proxy;
                                              -- 4 Nextcloud's server, Web Push; 5 the Web Push gateway
  kind $int NOT NULL,                         -- of the token: 1 APNs, 2 FCM or a Web Push subscription, 3 PushKit alone,
                                              -- 4 unknown: lives elsewhere
  token $bytes,                               -- sealed, as it was first spelled; NULL: only the bouncer where it lives can read it
  token_hash $int NOT NULL,                   -- 64 bits of a keyed hash of the canonical spelling; 0: has none
  target $text,                               -- the app's bundle id, or its Firebase project; NULL: the default one
  owner $int NOT NULL DEFAULT 0,              -- 62 bits of a keyed hash of the address it came from; 0: its chat server
  registered_at $int NOT NULL,                -- the last time
  ended_at $int,
  delivered_at $int,                          -- the last success, to the day, or the first after a failure
  failure $text,                              -- reason of the last failed delivery; a later success leaves it
  failed_at $int,
  failed_by $int,                             -- the row of the chat server whose notification that was
  environment $int,                           -- of Apple's, that has taken the token: 1 production, 2 sandbox; NULL: not known
  -- What a provider has said without being believed: it called too many tokens dead, or did not know a Firebase
  -- installation id that nothing was ever delivered to (then without a route).
  dead_since $int,
  dead_reason $text,
  dead_before $int,                           -- true of whatever was registered with the token before then
  dead_route_id $int REFERENCES outbox_routes (id),
  elsewhere $int,                             -- NULL: lives here; else at another bouncer: whether it has it
  -- Zulip: a token in a realm, or of a user at a server
  realm_id $int REFERENCES remote_realms (id),
  token_id $int,                              -- first 8 bytes of the token's SHA-256, big-endian, signed
  bouncer_key_id $int REFERENCES bouncer_keys (id),  -- NULL: imported
  server_id $int REFERENCES remote_servers (id),
  user_id $int,                               -- either this, as old servers do,
  user_uuid $text,                            -- or this; lower case, with hyphens
  -- Nextcloud's proxy: an identifier together with a user's key; who comes with another key gets a row beside, and takes
  -- nothing from anybody. The Web Push gateway has its subscriptions' ids here, and the key of the sender who alone may send.
  device_identifier $bytes,                   -- SHA-512 of what only the server knows
  user_key $bytes,                            -- SubjectPublicKeyInfo that its notifications are signed with
  token_sha512 $bytes,                        -- of the token as it was sent, as servers know it
  app $text,                                  -- name of the entry that the app was recognized by
  is_used $int,                               -- whether a notification signed by the key has ever come
  seen_at $int,                               -- the last registration or such notification, to the day
  token_differs_since $int,                   -- when a signed notification first named another token
  token_changed_at $int,                      -- when this token last took the place of another one
  -- Nextcloud's server: one of each app password, and one that was made with the account's API key
  account_id $int REFERENCES users (id) ON DELETE CASCADE,
  app_password_id $int REFERENCES app_passwords (id) ON DELETE CASCADE,
  api_key_hash $bytes,                        -- of the user, if it was that key: another key ends the subscription
  endpoint_hash $bytes,                       -- keyed hash of the URL
  app_types $text,                            -- as the app has sent it
  activation_hash $bytes,                     -- keyed hash of what the app has to send back; NULL once it has
  activated_at $int
) $strict;

CREATE INDEX registrations_by_token ON registrations (token_hash);
CREATE INDEX registrations_ended ON registrations (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX registrations_failed ON registrations (failed_by, failed_at) WHERE failed_by IS NOT NULL;
CREATE INDEX registrations_dead ON registrations (dead_route_id) WHERE dead_route_id IS NOT NULL;
CREATE UNIQUE INDEX registrations_by_realm ON registrations (realm_id, token_id) WHERE token_id IS NOT NULL;
CREATE UNIQUE INDEX registrations_by_user_id
  ON registrations (server_id, user_id, kind, token_hash) WHERE user_id IS NOT NULL;
CREATE UNIQUE INDEX registrations_by_user_uuid
  ON registrations (server_id, user_uuid, kind, token_hash) WHERE user_uuid IS NOT NULL;
-- Only for what looks at all of a server, and says so by the wire: for one user's it would read them all.
CREATE INDEX registrations_by_server ON registrations (server_id, realm_id, id) WHERE wire = 2;
CREATE UNIQUE INDEX registrations_by_identifier
  ON registrations (device_identifier, user_key) WHERE device_identifier IS NOT NULL;
CREATE INDEX registrations_of_gateway ON registrations (registered_at) WHERE wire = 5;
CREATE INDEX registrations_by_use ON registrations (seen_at) WHERE seen_at IS NOT NULL;
CREATE INDEX registrations_by_account ON registrations (account_id) WHERE account_id IS NOT NULL;
CREATE UNIQUE INDEX registrations_by_app_password
  ON registrations (app_password_id) WHERE app_password_id IS NOT NULL;
CREATE UNIQUE INDEX registrations_by_api_key
  ON registrations (account_id) WHERE account_id IS NOT NULL AND app_password_id IS NULL;

-- Bodies that did not fit into the Web Push gateway's pushes, until their apps fetch them.
CREATE TABLE gateway_messages (
  id $bytes PRIMARY KEY,
  registration_id $int NOT NULL,              -- which may be gone by now
  owner $int NOT NULL,                        -- of its registration or sender: they share the room
  encoding $text NOT NULL,                    -- aes128gcm or aesgcm, which has the next two
  crypto_key $text,
  encryption $text,
  body $bytes NOT NULL,                       -- sealed, and encrypted by the sender before
  expires_at $int NOT NULL
) $strict_by_key;

CREATE INDEX gateway_messages_by_registration ON gateway_messages (registration_id);
CREATE INDEX gateway_messages_by_end ON gateway_messages (expires_at);

-- Zulip's chat server: users' devices, their events, the tokens of old apps
-- -------------------------------------------------------------------------

-- A device id is never given twice.
CREATE TABLE devices (
  id $fresh_id,
  user_id $int NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  push_key $bytes,                            -- sealed
  push_key_id $int,
  kind $int,                                  -- 1 APNs, 2 FCM
  token_id $int,                              -- of the token that gets notifications
  pending_token_id $int,                      -- of the token that its bouncer has yet to accept
  token_updated_at $int,
  error_code $text,                           -- why the bouncer refused the pending one
  created_at $int NOT NULL
) $strict;

CREATE INDEX devices_by_user ON devices (user_id);

-- Registrations on their way to the bouncer, one per device.
CREATE TABLE device_registrations (
  device_id $int PRIMARY KEY REFERENCES devices (id) ON DELETE CASCADE,
  token_id $int NOT NULL,
  bouncer_public_key $text NOT NULL,
  encrypted_push_registration $text NOT NULL, -- opaque here: sealed to the bouncer
  requested_at $int NOT NULL,
  due_at $int NOT NULL,                       -- while it is being sent: when it may be taken over
  attempts $int NOT NULL                      -- also tells a sender whether the job is still its own
) $strict;

CREATE INDEX device_registrations_by_due ON device_registrations (due_at);

-- What has happened to a user's devices, numbered per user without gaps.
CREATE TABLE device_events (
  user_id $int NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  number $int NOT NULL,
  event $text NOT NULL,                       -- JSON, as clients read it
  created_at $int NOT NULL,
  PRIMARY KEY (user_id, number)
) $strict_by_key;

CREATE INDEX device_events_by_age ON device_events (created_at);

-- Clients that follow those events.
CREATE TABLE event_queues (
  id $text PRIMARY KEY,
  user_id $int NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  follows_devices $int NOT NULL,              -- whether its client wants those events
  seen_at $int NOT NULL
) $strict_by_key;

CREATE INDEX event_queues_by_user ON event_queues (user_id);

-- The tokens of a user's old apps.
CREATE TABLE legacy_tokens (
  id $id,
  user_id $int NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  kind $int NOT NULL,                         -- 1 APNs, 2 FCM
  token $bytes NOT NULL,                      -- sealed, as it was first spelled
  token_hash $int NOT NULL,                   -- 64 bits of a keyed hash of the canonical spelling
  ios_app_id $text,
  created_at $int NOT NULL,
  UNIQUE (user_id, kind, token_hash)
) $strict;

-- What the bouncer has yet to be told: that a token, or all tokens of a user, are no longer to be used.
CREATE TABLE legacy_unregistrations (
  id $fresh_id,                               -- never given twice: a late answer ends no newer one
  realm_uuid $text NOT NULL,
  user_uuid $text NOT NULL,
  user_id $int NOT NULL,                      -- its number in the chat
  kind $int,                                  -- NULL, as the next two: all of them
  token $bytes,                               -- sealed
  token_hash $int,
  requested_at $int NOT NULL,
  due_at $int NOT NULL,                       -- while it is being sent: when it may be taken over
  attempts $int NOT NULL,                     -- also tells a sender whether the job is still its own
  failure $text                               -- why the bouncer did not take it the last time
) $strict;

CREATE INDEX legacy_unregistrations_by_due ON legacy_unregistrations (due_at);
CREATE INDEX legacy_unregistrations_by_user ON legacy_unregistrations (user_uuid);

-- Nextcloud's push proxy
-- ----------------------

-- How many devices have gone because they were told to, a provider said so or nobody used them: whatever else is
-- missing was lost. One row, from the first of them on.
CREATE TABLE nextcloud_removals (
  id $int PRIMARY KEY,
  devices $int NOT NULL
) $strict;

-- Nextcloud's server: keys, phones, notifications, and pushes that no proxy has taken yet
-- ---------------------------------------------------------------------------------------

-- What signs for a user at push proxies, made when it is first needed.
CREATE TABLE nextcloud_keys (
  user_id $int PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
  public_key $text NOT NULL,                  -- PEM
  private_key $bytes NOT NULL,                -- PEM, sealed
  created_at $int NOT NULL
) $strict;

-- The phones that get pushes, one per app password.
CREATE TABLE nextcloud_registrations (
  id $fresh_id,
  user_id $int NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  app_password_id $int NOT NULL UNIQUE REFERENCES app_passwords (id) ON DELETE CASCADE,
  device_identifier $text NOT NULL,           -- base64, as proxies know the phone
  device_key $text NOT NULL,                  -- PEM: what its pushes are encrypted with
  push_token_hash $text NOT NULL,
  proxy_server $text NOT NULL,                -- as the phone named it
  proxy_url $text NOT NULL,                   -- without slashes at its end
  app_kind $int NOT NULL,                     -- 1 Talk, 2 Files, 3 unknown
  created_at $int NOT NULL,
  registered_at $int NOT NULL                 -- the last time
) $strict;

CREATE INDEX nextcloud_registrations_by_user ON nextcloud_registrations (user_id);

-- A user's notifications, whole, for apps that fetch them by number.
CREATE TABLE nextcloud_notifications (
  user_id $int NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  nid $int NOT NULL,
  app $text NOT NULL,
  created_at $int NOT NULL,                   -- when it was sent, the last time
  subject $bytes NOT NULL,                    -- this and what follows: sealed
  message $bytes NOT NULL,
  object_type $bytes NOT NULL,
  object_id $bytes NOT NULL,
  PRIMARY KEY (user_id, nid)
) $strict;

CREATE INDEX nextcloud_notifications_by_user_and_age ON nextcloud_notifications (user_id, created_at);
CREATE INDEX nextcloud_notifications_by_age ON nextcloud_notifications (created_at);

-- Pushes that a proxy has yet to take. An entry holds hashes and what only the phone can read.
CREATE TABLE nextcloud_pushes (
  id $fresh_id,
  registration_id $int NOT NULL REFERENCES nextcloud_registrations (id) ON DELETE CASCADE,
  registered_at $int NOT NULL,                -- of the registration, when the entry was made
  proxy_url $text NOT NULL,
  device_identifier $text NOT NULL,
  entry $text NOT NULL,                       -- JSON, as it goes over the wire
  nid $int,                                   -- of the notification that it tells of
  created_at $int NOT NULL,
  due_at $int NOT NULL,                       -- while it is being sent: when it may be taken over
  expires_at $int NOT NULL,
  attempts $int NOT NULL                      -- also tells a sender whether the push is still its own
) $strict;

CREATE INDEX nextcloud_pushes_by_due ON nextcloud_pushes (due_at);
CREATE INDEX nextcloud_pushes_by_proxy ON nextcloud_pushes (proxy_url, due_at);
CREATE INDEX nextcloud_pushes_by_registration ON nextcloud_pushes (registration_id);
CREATE INDEX nextcloud_pushes_by_expiry ON nextcloud_pushes (expires_at);

-- The service itself
-- ------------------

-- The processes that use this database. Each touches its row every ten seconds and removes it when it stops; one that
-- was killed leaves a row that nobody touches.
CREATE TABLE nodes (
  id $text PRIMARY KEY,                       -- UUID of the process
  hostname $text NOT NULL,                    -- of its machine
  version $text NOT NULL,                     -- of the program
  schema $int NOT NULL,                       -- the last migration that the program knows
  started_at $int NOT NULL,
  seen_at $int NOT NULL,                      -- by that machine's clock
  is_serving $int NOT NULL                    -- 0 for a command
) $strict_by_key;

-- Statistics: what has become of notifications, hour by hour.

-- `event` says what `subject` and `detail` are:
--   accepted    a route, how long it took (a bucket: half the power of two of the milliseconds)
--   refused     a route, or a provider of which no credential serves the topic or project; the reason
--   postponed   a route, the reason: tried in vain, and tried again later
--   given_up    a route, nothing: it waited in the outbox for too long
--   sent        a row of remote_servers, nothing: notifications that a chat server has handed in
--   failed      a row of remote_servers, nothing: those of them that were refused at once
--   registered  a bouncer key in base64, nothing
--   registration_refused  a row of remote_servers, the code: calls to register a device that were refused
CREATE TABLE hourly_counts (
  event $text NOT NULL,
  hour $int NOT NULL,                         -- hours since 1970 UTC
  subject $text NOT NULL,
  detail $text NOT NULL,
  count $int NOT NULL,
  PRIMARY KEY (event, hour, subject, detail)
) $strict_by_key;

-- The key pair that tells push services who sends. Every subscription is bound to it: it is made once and kept.
CREATE TABLE vapid_keys (
  id $int PRIMARY KEY,                       -- always 1
  private_key $bytes NOT NULL,                -- sealed: 32 bytes
  created_at $int NOT NULL
) $strict;
