/// Why something did not work. Where a message cannot be shown, show the placeholder; calls are repeated at the app's next start.
public enum PushError: Error, Equatable, CustomStringConvertible {
  /// What has arrived, or was given, is not as it has to be.
  case malformed(String)
  /// The message is for another subscription, such as the one before the last logout.
  case notSubscribed
  /// The message was encrypted for other keys, or changed. If all are: tell the chat server the keys again.
  case unreadable
  /// The gateway has refused a call. Only 429 and 503 pass by themselves.
  case refused(status: Int, message: String)

  /// A sentence for the app's log, without secrets.
  public var description: String {
    switch self {
    case .malformed(let what): "malformed: \(what)"
    case .notSubscribed: "not subscribed, or the message is for another subscription"
    case .unreadable: "the message is not encrypted for this app, or was changed"
    case .refused(let status, let message): "the gateway has answered \(status): \(message)"
    }
  }
}
