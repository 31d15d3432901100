import Basics
import Delivery
import Foundation
package import HTTP
import HTTPTypes
import Hummingbird
import NIOCore
import Providers
import Registrations
import SQL
import Sealing

/// The endpoints of the Web Push gateway: `/webpush/v1/...`.
package struct GatewayRoutes: Sendable {
  private typealias Handler = @Sendable (Request, WireContext) async throws -> Response

  private static let subscriptionsPath = "/webpush/v1/subscriptions"
  static let pushPath = "/webpush/v1/push/"
  static let messagesPath = "/webpush/v1/messages/"
  /// How long a call waits for a database that is away: most senders lose what is refused, and some wait for 10 s only.
  private static let databaseWait = Duration.seconds(6)

  let gateway: WebPushGateway
  private let perAddress: Rate<ClientAddress>

  package init(_ gateway: WebPushGateway) {
    self.gateway = gateway
    perAddress = Rate(gateway.settings.rateLimitPerAddress, now: gateway.now)
  }

  package func addRoutes(to router: Routes) {
    router.endpoint("\(Self.subscriptionsPath)", .post, use: answering(subscribe))
    router.endpoint(
      "\(Self.subscriptionsPath)/{id}",
      [.get: answering(show), .put: answering(renew), .delete: answering(end)])
    router.endpoint("\(Self.subscriptionsPath)/{id}/messages", .get, use: answering(list))
    router.endpoint("\(Self.pushPath){endpoint}", .post, use: answering(push))
    router.endpoint("\(Self.pushPath){endpoint}/{message}", .delete, use: answering(takeBack))
    router.endpoint("\(Self.messagesPath){message}", .get, use: answering(fetch))
  }

  /// Wraps a handler with what all endpoints share: the rate limit, the wait for the database, and error answers.
  private func answering(_ handler: @escaping Handler) -> Handler {
    { request, context in
      do {
        if let seconds = perAddress.count(context.clientAddress.source).retryAfter {
          throw APIError.tooMany("Too many requests. Try again later.", retryAfter: seconds)
        }
        return try await DatabaseWait.wait(upTo: Self.databaseWait) { try await handler(request, context) }
      } catch is Outbox.Full {
        return APIError.tryAgainLater.gatewayResponse
      } catch {
        return APIError(error, logger: context.logger).gatewayResponse
      }
    }
  }
}

/// The app's calls.
extension GatewayRoutes {
  /// `POST /webpush/v1/subscriptions`
  private func subscribe(_ request: Request, _ context: WireContext) async throws -> Response {
    let subscription = try await read(request, context)
    let id = gateway.secrets.newID(forOneSender: subscription.senderKey?.isEmpty == false)
    _ = try await gateway.put(id, subscription, from: context.clientAddress)
    return answer(.created, id, [.init("secret", .string(gateway.secrets.secret(of: id)))])
  }

  /// `PUT /webpush/v1/subscriptions/{id}`: 201 if the subscription had ended, so that its sender may have to be told its
  /// endpoint again.
  private func renew(_ request: Request, _ context: WireContext) async throws -> Response {
    let id = try authenticated(request, context)
    let isNew = try await gateway.put(id, read(request, context), from: context.clientAddress)
    return answer(isNew ? .created : .ok, id)
  }

  /// `GET /webpush/v1/subscriptions/{id}`
  private func show(_ request: Request, _ context: WireContext) async throws -> Response {
    let id = try authenticated(request, context)
    let subscription = try await find(id, otherwise: .noSubscription)
    var members: [JSON.Object.Member] = [
      .init("token_kind", .string(subscription.kind.rawValue)),
      .init("renewed_at", .time(subscription.reference.registeredAt)),
    ]
    if let appID = subscription.appID { members.append(.init("ios_app_id", .string(appID))) }
    if !subscription.senderKey.isEmpty {
      members.append(.init("application_server_key", .string(Base64URL.encode(subscription.senderKey))))
    }
    if let urgency = subscription.silentUrgency {
      members.append(.init("silent_urgency", .string(urgency.rawValue)))
    }
    if let failure = subscription.lastFailure {
      members += [
        .init("last_failure", .string(failure.reason)), .init("last_failure_at", .time(failure.at)),
      ]
    }
    return answer(.ok, id, members)
  }

  /// `DELETE /webpush/v1/subscriptions/{id}`
  private func end(_ request: Request, _ context: WireContext) async throws -> Response {
    try await gateway.subscriptions.remove(authenticated(request, context))
    return Response(status: .noContent)
  }

  /// `GET /webpush/v1/subscriptions/{id}/messages`: the bodies that wait.
  private func list(_ request: Request, _ context: WireContext) async throws -> Response {
    let entries = try await gateway.messages.entries(of: authenticated(request, context))
    let messages = entries.filter { !$0.isOver }.map { entry -> JSON in
      .object([
        "id": .string(entry.id.text), "encoding": .string(entry.encoding),
        "expires_at": .time(entry.expiresAt),
      ])
    }
    return Envelope.response(.ok, [.init("messages", .array(messages))])
  }

  /// `GET /webpush/v1/messages/{message}`: a body that did not fit into its push.
  private func fetch(_ request: Request, _ context: WireContext) async throws -> Response {
    guard let secret = Self.bearer(request) else { throw APIError.noSecret }
    let id = context.parameters.get("message").flatMap { GatewayID($0) }
    guard let id, let body = try await gateway.messages.find(id),
      gateway.secrets.isSecret(secret, of: body.subscription)
    else { throw APIError.noMessage }
    // The app gets it even while nothing can be written.
    try? await DatabaseWait.wait(upTo: .seconds(1)) { try await gateway.end(body, id) }
    var headers: HTTPFields = [
      .contentType: "application/octet-stream", .contentEncoding: body.encryption.encoding,
      .cacheControl: "no-store",
    ]
    headers[.cryptoKey] = body.encryption.cryptoKey
    headers[.encryption] = body.encryption.encryption
    return Response(
      status: .ok, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(bytes: body.bytes)))
  }

  private func read(_ request: Request, _ context: WireContext) async throws -> SubscriptionRequest {
    let subscription = try await gateway.read(request.wholeBody(upTo: gateway.http.maxBodyBytes))
    context.notes.record(subscription.additions)
    return subscription
  }

  /// The subscription that the path names.
  ///
  /// - Throws: 401 unless the caller has its secret.
  private func authenticated(_ request: Request, _ context: WireContext) throws(APIError) -> GatewayID {
    guard let secret = Self.bearer(request), let id = context.parameters.get("id").flatMap({ GatewayID($0) }),
      gateway.secrets.isSecret(secret, of: id)
    else { throw .noSecret }
    return id
  }

  private static func bearer(_ request: Request) -> String? {
    request.headers.value(.authorization).flatMap { $0.dropping(prefix: "bearer ") }.map { String($0) }
  }

  private func answer(
    _ status: HTTPResponse.Status, _ id: GatewayID, _ members: [JSON.Object.Member] = []
  ) -> Response {
    let names: [JSON.Object.Member] = [
      .init("id", .string(id.text)), .init("endpoint", .string(gateway.endpoint(of: id))),
    ]
    return Envelope.response(status, names + members)
  }
}

/// The sender's call.
extension GatewayRoutes {
  /// `POST /webpush/v1/push/{endpoint}`
  private func push(_ request: Request, _ context: WireContext) async throws -> Response {
    let id = try subscription(context)
    let memory = try gateway.chargeMessage(from: context.clientAddress)
    defer { memory.release() }
    let subscription = try await find(id, otherwise: .subscriptionEnded)
    let sender = try gateway.sender(request.headers, to: subscription)
    let message = try await GatewayMessage(
      request.headers, request.wholeBody(upTo: GatewayMessage.maximumBody))
    let name = try await gateway.send(message, to: subscription, from: sender, at: context.clientAddress)
    return Response(
      status: .created,
      headers: [.location: gateway.address(of: name, at: id), .timeToLive: "\(message.timeToLive)"])
  }

  /// `DELETE /webpush/v1/push/{endpoint}/{message}`: takes a message back (RFC 8030 section 5.4).
  private func takeBack(_ request: Request, _ context: WireContext) async throws -> Response {
    let id = try subscription(context)
    guard let name = context.parameters.get("message").flatMap({ GatewayName($0) }) else {
      throw APIError(.notFound, code: "no_message", "There is no such message.")
    }
    let subscription = try await find(id, otherwise: .subscriptionEnded)
    _ = try gateway.sender(request.headers, to: subscription)
    try await gateway.takeBack(name, from: subscription)
    return Response(status: .noContent)
  }

  /// The subscription that the path's endpoint names.
  private func subscription(_ context: WireContext) throws(APIError) -> GatewayID {
    guard
      let id = context.parameters.get("endpoint").flatMap({ gateway.secrets.subscription(ofEndpoint: $0) })
    else { throw .noEndpoint }
    return id
  }

  /// - Throws: `otherwise` if there is none, or 503 if the database may have lost it.
  private func find(_ id: GatewayID, otherwise: APIError) async throws -> GatewaySubscription {
    if let subscription = try await gateway.subscriptions.find(id) { return subscription }
    throw try await gateway.mayBeLost() ? APIError.tryAgainLater : otherwise
  }
}
