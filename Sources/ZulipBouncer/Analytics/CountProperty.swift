/// What chat servers count, by Zulip's names (`Documentation/Protocols/Zulip.md` 4.2).
enum CountProperty {
  /// Kept.
  static let stored: Set<String> = [
    "messages_sent:is_bot:hour", "messages_sent:message_type:day", "messages_sent:client:day",
    "messages_in_stream:is_bot:day", "ai_credit_usage::day", "active_users_audit:is_bot:day",
    "upload_quota_used_bytes::day", "messages_read::hour", "messages_read_interactions::hour",
    "1day_actives::day",
    "7day_actives::day", "15day_actives::day", "minutes_active::day", "realm_active_humans::day",
  ]

  /// Kept, or taken and dropped.
  static let accepted = stored.union([
    "invites_sent::day", "mobile_pushes_sent::day", "active_users_log:is_bot:day", "active_users:is_bot:day",
  ])
}

/// The kinds of events that servers report: users created, activated, deactivated, reactivated, their
/// roles, and the realm's own deactivation and reactivation (`Documentation/Protocols/Zulip.md` 4.2).
let reportedEventTypes: Set<Int64> = [101, 102, 103, 104, 105, 201, 202, 229]
