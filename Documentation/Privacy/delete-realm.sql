-- Removes a realm and everything that is kept about it. Put its UUID, in lower case, into the first statement.
-- A realm that its server still has comes back, without registrations, with the server's next report.
BEGIN;
CREATE TEMPORARY TABLE gone_realms AS
  SELECT id, server_id, realm_id FROM remote_realms WHERE uuid = 'e502dde1-74fb-44b4-9b3f-b1b2f8c1c5a1';
CREATE TEMPORARY TABLE gone_devices AS
  SELECT id FROM registrations WHERE realm_id IN (SELECT id FROM gone_realms);
DELETE FROM outbox WHERE registration_id IN (SELECT id FROM gone_devices);
DELETE FROM registrations WHERE id IN (SELECT id FROM gone_devices);
DELETE FROM remote_realm_audit_log WHERE EXISTS
  (SELECT 1 FROM gone_realms WHERE gone_realms.server_id = remote_realm_audit_log.server_id
    AND gone_realms.realm_id = remote_realm_audit_log.realm_id);
DELETE FROM remote_realm_counts WHERE EXISTS
  (SELECT 1 FROM gone_realms WHERE gone_realms.server_id = remote_realm_counts.server_id
    AND gone_realms.realm_id = remote_realm_counts.realm_id);
UPDATE remote_servers SET report_rows =
    (SELECT COUNT(*) FROM remote_realm_counts c WHERE c.server_id = remote_servers.id)
    + (SELECT COUNT(*) FROM remote_installation_counts c WHERE c.server_id = remote_servers.id)
    + (SELECT COUNT(*) FROM remote_realm_audit_log l WHERE l.server_id = remote_servers.id)
  WHERE id IN (SELECT server_id FROM gone_realms);
DELETE FROM remote_realms WHERE id IN (SELECT id FROM gone_realms);
DROP TABLE gone_devices;
DROP TABLE gone_realms;
COMMIT;
