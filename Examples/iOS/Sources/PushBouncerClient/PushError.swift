/// Why something did not work, and what an app does about it.
public enum PushError: Error, Equatable, CustomStringConvertible {
  /// What has arrived, or what the gateway has answered, is not as it has to be. Show the placeholder.
  case malformed(String)
  /// The message is for another subscription than the app has: for the one before the last logout. Show the placeholder.
  case notSubscribed
  /// The message was encrypted for other keys, or changed on the way. Show the placeholder; the chat server may have old keys
  /// of the app: tell it the subscription again.
  case unreadable
  /// The gateway has refused a call. 401 and 404 of ``Gateway/renew(_:as:sender:)`` are taken care of by
  /// ``Gateway/enrol(_:as:sender:)``; of the others only 429 and 503 pass by themselves, the former after `retryAfter` seconds.
  case refused(status: Int, message: String, retryAfter: Int?)

  /// A sentence for the app's log; without secrets.
  public var description: String {
    switch self {
    case .malformed(let what): "malformed: \(what)"
    case .notSubscribed: "the message is for another subscription than this app's"
    case .unreadable: "the message is not encrypted for this app, or was changed"
    case .refused(let status, let message, _): "the gateway has answered \(status): \(message)"
    }
  }
}
