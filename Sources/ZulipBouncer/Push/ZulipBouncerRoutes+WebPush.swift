internal import Delivery
internal import HTTP
internal import HTTPTypes
internal import Hummingbird
internal import Providers
internal import Sealing

/// Web Push, which stock servers know nothing of: for them its subscriptions are tokens of kind FCM
/// (`Documentation/Protocols/Zulip.md` 6.5).
extension ZulipBouncerRoutes {
  static let vapidPath = "/api/v1/zulip-services/webpush/vapid"

  /// `GET` of that: the public key that apps subscribe with.
  func vapid(_ request: Request, _ context: WireContext) async throws -> Response {
    guard let key = dependencies.deliverer.providers.vapidPublicKey else { throw APIError.noWebPush }
    return try Parameters(query: request).success([.init("vapid", .string(key))])
  }

  /// Whether a device may be registered with a token: any but a subscription that is none, or at a host that
  /// messages are not sent to.
  func accepts(_ token: PushToken) async -> Bool {
    guard token.kind == .fcm, WebPushSubscription.isToken(token.text) else { return true }
    guard let subscription = try? WebPushSubscription(token: token.text) else { return false }
    return await dependencies.deliverer.providers.accepts(subscription)
  }
}
