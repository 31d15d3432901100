-- Removes one encrypted registration. Put the token id as the database has it into the first statement: a number.
-- With a token id in base64, as chat servers have it:
--   python3 -c 'import base64,sys; print(int.from_bytes(base64.b64decode(sys.argv[1]), "big", signed=True))' +wKIhyAx/Eg=
BEGIN;
CREATE TEMPORARY TABLE gone_devices AS SELECT id FROM registrations WHERE token_id = -359574906294109112;
DELETE FROM outbox WHERE registration_id IN (SELECT id FROM gone_devices);
DELETE FROM registrations WHERE id IN (SELECT id FROM gone_devices);
DROP TABLE gone_devices;
COMMIT;
