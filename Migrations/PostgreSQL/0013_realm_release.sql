-- A realm that the operator has let go goes to the next server that brings it, until then.
ALTER TABLE remote_realms ADD COLUMN released_until BIGINT;
