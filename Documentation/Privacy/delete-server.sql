-- Removes a chat server and everything that is kept about it: realms, registrations, waiting notifications, reports.
-- Put its hostname, in lower case, into the first statement.
BEGIN;
CREATE TEMPORARY TABLE gone_servers AS SELECT id FROM remote_servers WHERE hostname_key = 'chat.example.org';
CREATE TEMPORARY TABLE gone_devices AS
  SELECT id FROM registrations WHERE server_id IN (SELECT id FROM gone_servers)
    OR realm_id IN (SELECT id FROM remote_realms WHERE server_id IN (SELECT id FROM gone_servers));
DELETE FROM outbox WHERE registration_id IN (SELECT id FROM gone_devices);
DELETE FROM registrations WHERE id IN (SELECT id FROM gone_devices);
DELETE FROM hourly_counts WHERE event IN ('sent', 'failed') AND subject IN
  (SELECT CAST(id AS TEXT) FROM gone_servers);
DELETE FROM remote_realm_audit_log WHERE server_id IN (SELECT id FROM gone_servers);
DELETE FROM remote_realm_counts WHERE server_id IN (SELECT id FROM gone_servers);
DELETE FROM remote_installation_counts WHERE server_id IN (SELECT id FROM gone_servers);
DELETE FROM upstream_links WHERE server_id IN (SELECT id FROM gone_servers);
DELETE FROM upstream_unregistrations WHERE server_id IN (SELECT id FROM gone_servers);
DELETE FROM remote_realms WHERE server_id IN (SELECT id FROM gone_servers);
DELETE FROM remote_server_audit_log WHERE server_id IN (SELECT id FROM gone_servers);
DELETE FROM remote_servers WHERE id IN (SELECT id FROM gone_servers);
DROP TABLE gone_devices;
DROP TABLE gone_servers;
COMMIT;
