import Foundation
import HTTP
import HTTPTypes
import Providers
import Registrations
import TestSupport

@testable import NextcloudServer
@testable import Server

/// A browser, or an app with a UnifiedPush distributor, that has signed in: it has keys, and an endpoint at some push
/// service.
struct Browser: Sendable {
  static let path = "apps/notifications/api/v2/webpush"

  let app: SignedIn
  let phone = WebPushPhone()
  var endpoint: String

  /// - Parameter endpoint: nil: one of this machine where nobody listens.
  init(_ app: SignedIn, endpoint: String? = nil) {
    self.app = app
    self.endpoint = endpoint ?? "https://127.0.0.1:1/push/\(UUID())"
  }

  func form(appTypes: String = "all") -> [(String, String)] {
    [
      ("endpoint", endpoint), ("uaPublicKey", phone.publicKey), ("auth", phone.auth), ("appTypes", appTypes),
    ]
  }

  func subscribe(appTypes: String = "all") async throws -> Instance.Answer {
    try await app.call(.post, Self.path, form(appTypes: appTypes))
  }

  func activate(_ token: String) async throws -> Instance.Answer {
    try await app.call(.post, "\(Self.path)/activate", [("activationToken", token)])
  }

  func unsubscribe() async throws -> Instance.Answer { try await app.call(.delete, Self.path) }

  /// Stores its subscription without a message to it. Returns the token that activates it.
  func put(appTypes: String = "all", appPassword: Int64?) async throws -> String? {
    let target = try WebPushSubscription(endpoint: endpoint, p256dh: phone.publicKey, auth: phone.auth)
    let registered = try await app.instance.webPush.subscriptions.put(
      target, AppTypes(appTypes), of: .init(user: app.user.id, appPassword: appPassword))
    guard case .new(_, let token) = registered else { return nil }
    return token
  }
}

extension Instance {
  var webPush: NextcloudWebPush { sender.webPush }

  /// Push services may be on this machine.
  static let localPushServices = [
    "webpush.allow_private_hosts": "127.0.0.1", "webpush.contact": "mailto:admin@example.org",
  ]

  /// The active subscriptions of a user, by what they are for.
  func active(_ app: SignedIn) async throws -> [String] {
    try await webPush.subscriptions.active(of: app.user.id).map(\.appTypes.text)
  }

  /// How many subscriptions there are, and how many of them are active.
  func counts() async throws -> [Int64] {
    let (all, active) = try await webPush.subscriptions.count()
    return [all, active]
  }
}
