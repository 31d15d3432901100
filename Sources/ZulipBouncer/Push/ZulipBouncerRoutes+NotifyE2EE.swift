internal import Delivery
package import Foundation
internal import HTTP
internal import HTTPTypes
internal import Hummingbird
package import Logging
internal import Providers
package import Registrations
internal import Sealing

extension ZulipBouncerRoutes {
  /// `POST push/e2ee/notify` (`Documentation/Protocols/Zulip.md` 6.2).
  func notifyE2EE(_ server: RemoteServer, _ request: Request, _ context: WireContext) async throws -> Response
  {
    let body = try await Field.body(
      of: request, limit: configuration.maximumBodyBytes, cutBelow: NotifyRequest.depth)
    let realm = try body["realm_uuid"].string()
    context.notes.note(realm: UUID(pythonText: realm))
    let notification = try NotifyRequest(body)
    let query = try Parameters(query: request)
    let receipt = try await notify(
      notification, realm: UUID(realm: realm), of: server, since: context.received, logger: context.logger)
    return query.success(receipt.members + [.init("realm_push_status", Self.pushStatus)])
  }

  /// Sends notifications that only phones can read.
  ///
  /// - Parameter received: when they were asked for.
  package func notify(
    _ notification: NotifyRequest, realm: UUID, of server: RemoteServer,
    since received: ContinuousClock.Instant = .now, logger: Logger
  ) async throws -> NotifyReceipt {
    let realm = try await caller(realm, of: server)
    let (found, unreadable) = try await dependencies.registrations.lookup(
      realm: realm.id, tokenIDs: notification.items.map(\.tokenID))
    let batch = NotifyBatch(
      notification, registrations: found, unreadable: unreadable, of: .chatServer(server.id), logger: logger)
    return batch.receipt(try await deliver(batch.deliveries, of: server, since: received))
  }

  /// Sends what the server's pace lets through, and keeps the rest in the outbox.
  func deliver(
    _ deliveries: [RegisteredPush], of server: RemoteServer, since received: ContinuousClock.Instant
  ) async throws -> [DeliveryResult] {
    do {
      let results = try await dependencies.deliverer.deliver(
        try pace.pace(deliveries, of: server.id), after: .now - received)
      dependencies.deliverer.history?.took(results, of: server.id)
      return results
    } catch is Outbox.Full {
      throw APIError.tryAgainLater
    }
  }
}

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
