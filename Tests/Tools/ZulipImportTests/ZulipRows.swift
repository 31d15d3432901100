import Foundation

/// Rows of a Zulip bouncer: every valid variant, and rows that break each rule.
enum ZulipRows {
  static let alpha = UUID(uuidString: "a1000000-0000-4000-8000-000000000001")
  static func key(_ letter: Character) -> String { String(repeating: letter, count: 64) }

  /// The number of filler rows, which make many batches.
  static let ordinary = 60

  static let script = """
    INSERT INTO zilencer_remotezulipserver
      (id, uuid, api_key, hostname, contact_email, last_updated, last_version, last_request_datetime,
       last_api_feature_level, last_merge_base, deactivated, plan_type, org_type, last_audit_log_update)
    VALUES
      (1, 'a1000000-0000-4000-8000-000000000001', repeat('a', 64), 'chat.example.org', 'a@example.org',
       '2024-01-01 00:00:00.123456+00', '12.0', '2026-01-02 03:04:05.678901+00', 483, 'abc', false, 100, 0,
       '2026-01-01 00:00:00+00'),
      (2, 'a1000000-0000-4000-8000-000000000002', repeat('b', 64), 'CHAT.example.org:8443', 'b@example.org',
       '2024-01-01 00:00:00+00', NULL, NULL, NULL, NULL, false, 100, 0, NULL),
      (3, 'a1000000-0000-4000-8000-000000000003', repeat('c', 64), 'old.example.org', 'c@example.org',
       '2024-03-01 00:00:00+00', NULL, '2024-02-01 00:00:00+00', NULL, NULL, true, 100, 0, NULL),
      (4, 'a1000000-0000-4000-8000-000000000004', repeat('d', 64), 'bücher.example.org', 'Ümläut@example.org',
       '2024-01-01 00:00:00+00', NULL, NULL, NULL, NULL, false, 100, 0, NULL),
      (5, 'a1000000-0000-4000-8000-000000000005', repeat('e', 64), 'built-in.localhost', 'e@example.org',
       '2024-01-01 00:00:00+00', NULL, NULL, NULL, NULL, false, 100, 0, NULL),
      (6, 'a1000000-0000-4000-8000-000000000006', '', 'keyless.example.org', 'f@example.org',
       '2024-01-01 00:00:00+00', NULL, NULL, NULL, NULL, false, 100, 0, NULL),
      (7, 'a1000000-0000-4000-8000-000000000007', repeat('g', 64), 'Chat.Example.Org', 'g@example.org',
       '2024-01-01 00:00:00+00', NULL, '2026-02-02 00:00:00+00', NULL, NULL, true, 100, 0, NULL),
      (8, 'a1000000-0000-4000-8000-000000000008', repeat('h', 64), 'chat.example.org', 'h@example.org',
       '2024-01-01 00:00:00+00', NULL, '2025-02-02 00:00:00+00', NULL, NULL, false, 100, 0, NULL);

    INSERT INTO zilencer_remoterealm
      (id, uuid, uuid_owner_secret, host, name, is_system_bot_realm, authentication_methods, org_type,
       last_request_datetime, registration_deactivated, realm_deactivated, realm_locally_deleted,
       realm_date_created, plan_type, server_id)
    VALUES
      (10, 'b1000000-0000-4000-8000-000000000010', 'zuliprealm_one', 'chat.example.org', E'Köln, "quoted"\\nand broken',
       false, '{"LDAP": false, "Email": true}', 10, '2026-01-01 00:00:00+00', false, false, false,
       '2020-01-01 00:00:00+00', 1, 1),
      (11, 'b1000000-0000-4000-8000-000000000011', 'zuliprealm_two', 'two.example.org', '', true, '{}', 0, NULL,
       false, false, true, '2020-01-01 00:00:00+00', 1, 1),
      (20, 'b1000000-0000-4000-8000-000000000020', 'zuliprealm_three', 'beta.example.org', 'Beta', false, '{}', 0,
       NULL, false, true, false, '2020-01-01 00:00:00+00', 1, 2),
      (60, 'b1000000-0000-4000-8000-000000000060', 'zuliprealm_six', 'keyless.example.org', 'Keyless', false, '{}',
       0, NULL, false, false, false, '2020-01-01 00:00:00+00', 1, 6);

    INSERT INTO zilencer_remotepushdevice
      (device_id, token, token_id, token_kind, expired_time, ios_app_id, realm_id, remote_realm_id)
    VALUES
      (1, 'AABBCC', token_id('AABBCC'), 'apns', NULL, 'org.example.chat', NULL, 10),
      (2, 'webpush:e30', token_id('webpush:e30'), 'fcm', NULL, NULL, NULL, 10),
      (3, 'dd01', token_id('dd01'), 'apns', '2026-01-01 00:00:00+00', 'org.example.chat', NULL, 10),
      (4, 'fcm:dup', token_id('fcm:dup'), 'fcm', '2026-01-01 00:00:00+00', NULL, NULL, 11),
      (5, 'cloud', token_id('cloud'), 'fcm', NULL, NULL, 2, NULL),
      (6, 'wrong', token_id('Wrong'), 'fcm', NULL, NULL, NULL, 10),
      (7, 'ee77', token_id('ee77'), 'apns', NULL, NULL, NULL, 10),
      (8, 'web', token_id('web'), 'web', NULL, NULL, NULL, 10),
      (9, 'keyless', token_id('keyless'), 'fcm', NULL, NULL, NULL, 60),
      (10, 'xyz', token_id('xyz'), 'apns', NULL, 'org.example.chat', NULL, 10),
      (11, '', token_id(''), 'fcm', NULL, NULL, NULL, 10),
      (12, 'ee78', token_id('ee78'), 'apns', NULL, E'org.example\\n', NULL, 10),
      (13, 'AABBCC', token_id('AABBCC'), 'apns', NULL, 'org.example.chat', NULL, 20),
      (14, 'fcm:dup', token_id('fcm:dup'), 'fcm', NULL, NULL, NULL, 11),
      (15, 'fcm:dup', token_id('fcm:dup'), 'fcm', '2026-01-03 00:00:00+00', NULL, NULL, 11);
    INSERT INTO zilencer_remotepushdevice (device_id, token, token_id, token_kind, remote_realm_id)
      SELECT 100 + n, 'fcm:many' || n, token_id('fcm:many' || n), 'fcm', 20 FROM generate_series(1, \(ordinary)) n;

    INSERT INTO zilencer_remotepushdevicetoken
      (id, kind, token, last_updated, ios_app_id, user_id, user_uuid, server_id, remote_realm_id)
    VALUES
      -- Those that E2EE registrations stand for, and those that only look like it.
      (1, 1, 'aabbcc', '2024-01-01 00:00:00+00', 'org.example.chat', NULL, '\(user(1))', 1, 10),
      (2, 1, 'aabbCC', '2024-01-02 00:00:00+00', 'org.example.chat', NULL, '\(user(1))', 1, NULL),
      (3, 2, 'webpush:e30', '2024-01-03 00:00:00+00', NULL, NULL, '\(user(1))', 1, 10),
      (4, 2, 'FCM:one', '2024-01-04 00:00:00+00', NULL, NULL, '\(user(1))', 1, 10),
      (5, 1, 'dd01', '2024-01-05 00:00:00+00', 'org.example.chat', NULL, '\(user(1))', 1, 10),
      (6, 1, 'AABBCC', '2024-01-06 00:00:00+00', 'org.example.chat', NULL, '\(user(2))', 1, 11),
      -- One device in two spellings, far apart.
      (7, 1, 'ee01', '2024-01-07 00:00:00.5+00', 'org.example.old', NULL, '\(user(3))', 1, NULL),
      -- A user that has got a UUID.
      (8, 1, 'ff02', '2024-01-08 00:00:00+00', 'org.example.chat', 7, NULL, 1, NULL),
      (9, 1, 'FF02', '2024-01-09 00:00:00+00', 'org.example.chat', NULL, '\(user(4))', 1, 10),
      -- The same number and token at another server.
      (10, 1, 'ff02', '2024-01-10 00:00:00+00', 'org.example.chat', 7, NULL, 2, NULL),
      -- Two users of a device, of whom one has got a UUID: nobody knows which.
      (11, 2, 'fcm:shared', '2024-01-11 00:00:00+00', NULL, 8, NULL, 1, NULL),
      (12, 2, 'fcm:shared', '2024-01-12 00:00:00+00', NULL, 9, NULL, 1, NULL),
      (13, 2, 'fcm:shared', '2024-01-13 00:00:00+00', NULL, NULL, '\(user(5))', 1, 10),
      -- Users of two realms.
      (14, 2, 'fcm:far', '2024-01-14 00:00:00+00', NULL, 10, NULL, 1, 10),
      (15, 2, 'fcm:far', '2024-01-15 00:00:00+00', NULL, NULL, '\(user(6))', 1, 11),
      (16, 2, 'fcm:off', '2024-01-16 00:00:00+00', NULL, 1, NULL, 3, NULL),
      (17, 1, '\\xC0FFEE', '2024-01-17 00:00:00+00', 'org.example.chat', 1, NULL, 1, NULL),
      (18, 2, 'fcm:future', '2100-01-01 00:00:00+00', NULL, 1, NULL, 1, NULL),
      -- What is refused.
      (21, 3, 'kind', '2024-01-01 00:00:00+00', NULL, 1, NULL, 1, NULL),
      (22, 2, '', '2024-01-01 00:00:00+00', NULL, 1, NULL, 1, NULL),
      (23, 1, 'zz', '2024-01-01 00:00:00+00', 'org.example.chat', 1, NULL, 1, NULL),
      (24, 1, 'ab', '2024-01-01 00:00:00+00', NULL, 1, NULL, 1, NULL),
      (25, 2, 'nobody', '2024-01-01 00:00:00+00', NULL, NULL, NULL, 1, NULL),
      (26, 2, 'both', '2024-01-01 00:00:00+00', NULL, 1, '\(user(1))', 1, NULL),
      (27, 2, 'negative', '2024-01-01 00:00:00+00', NULL, -1, NULL, 1, NULL),
      (28, 2, 'keyless', '2024-01-01 00:00:00+00', NULL, 1, NULL, 6, NULL),
      (29, 2, 'another', '2024-01-01 00:00:00+00', NULL, 1, NULL, 1, 20),
      (30, 1, 'ac', '2024-01-01 00:00:00+00', 'org example', 1, NULL, 1, NULL);
    INSERT INTO zilencer_remotepushdevicetoken (id, kind, token, last_updated, user_uuid, server_id, remote_realm_id)
      SELECT 100 + n, 2, 'fcm:legacy' || n, '2024-01-01 00:00:00+00', gen_random_uuid(), 2, 20
      FROM generate_series(1, \(ordinary)) n;
    INSERT INTO zilencer_remotepushdevicetoken
      (id, kind, token, last_updated, ios_app_id, user_id, user_uuid, server_id, remote_realm_id)
    VALUES (500, 1, 'EE01', '2024-06-01 00:00:00+00', 'org.example.chat', NULL, '\(user(3))', 1, 11);
    """

  static func user(_ number: Int) -> String { "c1000000-0000-4000-8000-00000000000\(number)" }
}
