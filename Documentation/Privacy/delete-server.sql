-- Removes a chat server and everything that is kept about it: realms, registrations, waiting notifications, reports.
-- Put its hostname, in lower case, into the first statement.
BEGIN;
CREATE TEMPORARY TABLE gone_servers AS SELECT id FROM remote_servers WHERE hostname_key = 'chat.example.org';
CREATE TEMPORARY TABLE gone_devices AS
  SELECT 1 AS kind, id FROM e2ee_registrations WHERE realm_id IN
    (SELECT id FROM remote_realms WHERE server_id IN (SELECT id FROM gone_servers))
  UNION ALL
  SELECT 2, id FROM legacy_registrations WHERE server_id IN (SELECT id FROM gone_servers);
DELETE FROM outbox WHERE EXISTS
  (SELECT 1 FROM gone_devices WHERE gone_devices.kind = registration_kind AND gone_devices.id = registration_id);
DELETE FROM held_deaths WHERE EXISTS
  (SELECT 1 FROM gone_devices WHERE gone_devices.kind = held_deaths.kind AND gone_devices.id = registration_id);
DELETE FROM e2ee_registrations WHERE id IN (SELECT id FROM gone_devices WHERE kind = 1);
DELETE FROM legacy_registrations WHERE id IN (SELECT id FROM gone_devices WHERE kind = 2);
DELETE FROM zulip_migration_realms WHERE server_id IN (SELECT id FROM gone_servers);
DELETE FROM zulip_migration_servers WHERE server_id IN (SELECT id FROM gone_servers);
DELETE FROM migration_history WHERE server_id IN (SELECT id FROM gone_servers);
DELETE FROM hourly_counts WHERE event IN ('sent', 'failed') AND subject IN
  (SELECT CAST(id AS TEXT) FROM gone_servers);
DELETE FROM remote_realm_audit_log WHERE server_id IN (SELECT id FROM gone_servers);
DELETE FROM remote_realm_counts WHERE server_id IN (SELECT id FROM gone_servers);
DELETE FROM remote_installation_counts WHERE server_id IN (SELECT id FROM gone_servers);
DELETE FROM remote_realms WHERE server_id IN (SELECT id FROM gone_servers);
DELETE FROM remote_server_audit_log WHERE server_id IN (SELECT id FROM gone_servers);
DELETE FROM remote_servers WHERE id IN (SELECT id FROM gone_servers);
DROP TABLE gone_devices;
DROP TABLE gone_servers;
COMMIT;
