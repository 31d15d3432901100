// In the target of a Notification Service Extension, which iOS starts for each push with `mutable-content`.
import PushBouncerClient
import UserNotifications

final class NotificationService: UNNotificationServiceExtension {
  private var show: ((UNNotificationContent) -> Void)?
  private var content = UNMutableNotificationContent()

  override func didReceive(
    _ request: UNNotificationRequest,
    withContentHandler contentHandler: @escaping (UNNotificationContent) -> Void
  ) {
    show = contentHandler
    content = request.content.mutableCopy() as? UNMutableNotificationContent ?? content
    Task { @MainActor in
      do {
        let push = try ReceivedPush(request.content.userInfo)
        guard let account = try PushAccount.load(), let subscription = account.subscription else {
          throw PushError.notSubscribed
        }
        if let text = try await PushAccount.gateway.open(push, of: subscription, with: account.keys) {
          // As your server writes it: most send JSON with a title and a body.
          (content.title, content.body) = ("", String(decoding: text, as: UTF8.self))
        }
      } catch {
        // "New notification" is shown. What could not be fetched waits, and the app collects it at its next start.
        print("push: \(error)")
      }
      finish()
    }
  }

  override func serviceExtensionTimeWillExpire() { Task { @MainActor in finish() } }

  @MainActor private func finish() {
    show?(content)
    show = nil
  }
}
