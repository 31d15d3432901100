-- The key pair that tells push services who sends. Every subscription is bound to it: it is made once and kept.
CREATE TABLE vapid_keys (
  id $int PRIMARY KEY,                       -- always 1
  private_key $bytes NOT NULL,                -- sealed: 32 bytes
  created_at $int NOT NULL
) $strict;
