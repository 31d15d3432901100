/// Constants that bouncer and chat server must agree on.
package enum Zulip {
  /// The text that a phone shows until its app has decrypted the notification.
  package static let placeholder = "New notification"
  /// The maximum number of messages in one removal; the newest are kept.
  package static let maximumRemovals = 200
}
