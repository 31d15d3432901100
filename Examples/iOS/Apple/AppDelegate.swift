// In the app's target, which has the capability Push Notifications.
import PushBouncerClient
import UIKit
import UserNotifications

final class AppDelegate: UIResponder, UIApplicationDelegate {
  func application(
    _ application: UIApplication,
    didFinishLaunchingWithOptions options: [UIApplication.LaunchOptionsKey: Any]?
  ) -> Bool {
    UNUserNotificationCenter.current().requestAuthorization(options: [.alert, .sound, .badge]) { _, _ in }
    // At each start: Apple answers with the present token.
    application.registerForRemoteNotifications()
    return true
  }

  func application(
    _ application: UIApplication, didRegisterForRemoteNotificationsWithDeviceToken token: Data
  ) {
    let token = token.map { String(format: "%02x", $0) }.joined()
    Task {
      do { try await start(token: token) } catch { print("push: \(error); again at the next start") }
    }
  }

  private func start(token: String) async throws {
    let phone = Registration.apns(token: token, appID: Bundle.main.bundleIdentifier ?? "")
    let gateway = PushAccount.gateway
    var account = try PushAccount.load() ?? PushAccount()
    let made = try await gateway.enrol(account.subscription, as: phone, sender: ChatServer.key)
    account.subscription = made
    // Before the server is told.
    try account.save()
    try await ChatServer.tell(made.endpoint, p256dh: account.keys.p256dh, auth: account.keys.auth)
    try await gateway.collect(for: made, with: account.keys) { text in
      guard let text else { return }
      let content = UNMutableNotificationContent()
      content.body = String(decoding: text, as: UTF8.self)
      try await UNUserNotificationCenter.current().add(
        UNNotificationRequest(identifier: UUID().uuidString, content: content, trigger: nil))
    }
  }

  /// Once more if it fails. A server that was not told of the logout is answered 410 from then on.
  static func logOut() async throws {
    if let subscription = try PushAccount.load()?.subscription {
      try await PushAccount.gateway.unsubscribe(subscription)
    }
    PushAccount.forget()
  }
}

/// Your server's calls, such as Mastodon's `POST /api/v1/push/subscription`; `key` is its VAPID key, if apps can know it.
enum ChatServer {
  static let key: String? = nil
  static func tell(_ endpoint: String, p256dh: String, auth: String) async throws {}
}
