-- Removes the legacy registrations of one user of a chat server. Put the server's hostname, in lower case, and the
-- user's number and UUID, in lower case, into the first statement. Encrypted registrations name no user.
BEGIN;
CREATE TEMPORARY TABLE gone_devices AS
  SELECT id FROM registrations
  WHERE server_id IN (SELECT id FROM remote_servers WHERE hostname_key = 'chat.example.org')
    AND (user_id = 7 OR user_uuid = '00000000-0000-0000-0000-000000000000');
DELETE FROM outbox WHERE registration_id IN (SELECT id FROM gone_devices);
DELETE FROM registrations WHERE id IN (SELECT id FROM gone_devices);
DROP TABLE gone_devices;
COMMIT;
