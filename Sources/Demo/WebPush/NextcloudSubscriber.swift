package import AsyncHTTPClient
package import HTTP
import NIOHTTP1

/// A phone without Google at a Nextcloud server, of version 34 or the one built in here: no push proxy takes part
/// (`Documentation/Protocols/Nextcloud.md` 5.6).
package struct NextcloudSubscriber {
  private let account: JSONService
  private let server: JSONService
  private let service: PushService
  private var subscription: PushSubscription?
  /// Up to which message.
  private var seen: Int64 = 0

  /// - Parameters:
  ///   - login: its user's name there, with an app password.
  ///   - service: where it subscribes.
  package init(
    server: String, login: (user: String, password: String), at service: PushService, client: HTTPClient
  ) {
    account = .nextcloud(server, "core", login, client: client)
    self.server = .nextcloud(server, "apps/notifications/api/v2", login, client: client)
    self.service = service
  }

  /// Subscribes for all notifications. The server sends a token that way; it has to come back before anything else is
  /// sent.
  package mutating func subscribe() async throws {
    guard let key = try await server.call(.GET, "webpush/vapid")["ocs"]?["data"]?["vapid"]?.string else {
      throw DemoError("the server tells no VAPID key")
    }
    let subscription = try await service.subscribe(key: key)
    self.subscription = subscription
    seen = 0
    _ = try await server.call(
      .POST, "webpush",
      .form([
        ("endpoint", subscription.endpoint), ("uaPublicKey", subscription.p256dh),
        ("auth", subscription.auth),
        ("appTypes", "all"),
      ]))
    guard let token = try await messages().first??["activationToken"]?.string else {
      throw DemoError("no token came to make the subscription active with")
    }
    _ = try await server.call(.POST, "webpush/activate", .form([("activationToken", token)]))
  }

  /// What has arrived since, each nil where it does not open; waits for some seconds if nothing has.
  package mutating func messages() async throws -> [JSON?] {
    guard let subscription else { return [] }
    return try await service.messages(for: subscription, after: &seen).map { subscription.open($0) }
  }

  /// Ends the subscription at both.
  package func unsubscribe() async throws {
    _ = try await server.call(.DELETE, "webpush")
    if let subscription { try await service.end(subscription) }
  }

  /// Ends its app password.
  package func signOut() async throws { _ = try await account.call(.DELETE, "apppassword") }
}
