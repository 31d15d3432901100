-- Each kind of registrations has its share of the outbox, and each registration; both are counted.
DROP INDEX outbox_by_route;
CREATE INDEX outbox_by_route ON outbox (route_id, due_at, registration_kind);
DROP INDEX outbox_by_legacy_registration;
CREATE INDEX outbox_by_registration ON outbox (registration_id, registration_kind);
