internal import Delivery
internal import HTTPTypes
internal import Hummingbird
internal import Registrations
internal import Wire

extension ZulipBouncer {
  /// `POST push/e2ee/notify`: sends notifications that only phones can read.
  func notifyE2EE(_ server: RemoteServer, _ request: Request, _ context: WireContext) async throws -> Response
  {
    let notification = try NotifyRequest(
      try await Field.body(
        of: request, limit: configuration.maximumBodyBytes, cutBelow: NotifyRequest.depth))
    let query = try Parameters(query: request)
    let realm = try await realm(named: notification.realmUUID, of: server)
    let (found, unreadable) = try await dependencies.registrations.lookup(
      realm: realm.id, tokenIDs: notification.items.map(\.tokenID))
    let batch = NotifyBatch(
      notification, registrations: found, unreadable: unreadable, logger: context.logger)
    let results = try await deliver(batch.deliveries, of: server)
    return query.success(batch.answer(results) + [.init("realm_push_status", Self.pushStatus)])
  }

  /// Sends what the server's pace lets through, and keeps the rest in the outbox.
  func deliver(_ deliveries: [Delivery], of server: RemoteServer) async throws -> [DeliveryResult] {
    do {
      return try await dependencies.deliverer.deliver(try pace.pace(deliveries, of: server.id))
    } catch is Outbox.Full {
      throw APIError.tryAgainLater
    }
  }
}
