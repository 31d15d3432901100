/// How a push is to be treated on its way (`Documentation/Protocols/Nextcloud.md` 6.2).
struct PushUrgency: Sendable, Hashable {
  /// `high` or `normal`.
  let priority: String
  /// `alert`, `voip` or `background`.
  let type: String

  /// Of a push that takes something back.
  static let deletion = PushUrgency(priority: "normal", type: "background")

  /// Of a notification of an app about some type of thing.
  static func notification(app: String, type: String) -> PushUrgency {
    if isTalk(app) { return PushUrgency(priority: "high", type: type == "call" ? "voip" : "alert") }
    return PushUrgency(priority: urgentApps.contains(app) ? "high" : "normal", type: "alert")
  }

  /// Whether an app is one of those that the Talk app shows.
  static func isTalk(_ app: String) -> Bool { talkApps.contains(app) }

  private static let talkApps: Set = ["spreed", "talk", "admin_notification_talk"]
  private static let urgentApps: Set = ["twofactor_nextcloud_notification", "phonetrack"]
}
