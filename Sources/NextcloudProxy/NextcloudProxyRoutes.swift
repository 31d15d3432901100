internal import Delivery
internal import Foundation
package import HTTP
package import HTTPTypes
package import Hummingbird
internal import Logging
internal import NIOCore
internal import NIOHTTP1
internal import SQL

/// The push proxy as Nextcloud's servers and apps call it: `/devices` and `/notifications`.
package struct NextcloudProxyRoutes: Sendable {
  private typealias Handler = @Sendable (Request, WireContext) async throws -> Response

  private let proxy: PushProxy
  private let devicesPerAddress: RateLimiter<ClientAddress>
  private let notificationsPerAddress: RateLimiter<ClientAddress>

  package init(_ proxy: PushProxy) {
    self.proxy = proxy
    devicesPerAddress = RateLimiter(proxy.configuration.rateLimitPerAddress, now: proxy.now)
    notificationsPerAddress = RateLimiter(proxy.configuration.rateLimitPerAddress, now: proxy.now)
  }

  package func addRoutes(to router: Router<WireContext>) {
    router.endpoint(
      "/devices",
      [
        .post: answering(devicesPerAddress, \.response, register),
        .delete: answering(devicesPerAddress, \.response, unregister),
      ])
    router.endpoint(
      "/notifications", [.post: answering(notificationsPerAddress, \.plainResponse, notify)], isPlain: true)
  }

  /// What every endpoint does before and after its own work.
  private func answering(
    _ limiter: RateLimiter<ClientAddress>, _ refusal: @escaping @Sendable (ProxyError) -> Response,
    _ handler: @escaping Handler
  ) -> Handler {
    { request, context in
      do {
        if let seconds = limiter.count(context.clientAddress.source).retryAfter {
          throw ProxyError(
            .tooManyRequests, "Too many requests. Try again later.", retryAfter: seconds)
        }
        return try await handler(request, context)
      } catch {
        return refusal(ProxyError(error, logger: context.logger))
      }
    }
  }

  /// Success: exactly 200 with a body, or apps take it for a failure.
  private static var done: Response { Envelope.response(.ok, []) }

  /// `POST /devices`. `cloudId`, which the documents know, is not needed.
  private func register(_ request: Request, _ context: WireContext) async throws -> Response {
    let parameters = try await DeviceParameters(request, limit: proxy.configuration.maximumBodyBytes)
    let token = try parameters.required("pushToken")
    guard TokenShape(token) != nil else {
      throw ProxyError("pushToken is malformed: it is no token of APNs or FCM.")
    }
    do {
      try await proxy.register(
        token: token, SignedIdentifier(parameters), userAgents: parameters.userAgents,
        from: context.clientAddress)
    } catch let error as PushProxy.UnknownApp {
      if let name = error.name {
        context.logger.warning(
          """
          an app that nobody knows was refused: an entry of nextcloud.apps_file with a user_agent that \
          matches lets it in, or nextcloud.default_app
          """, metadata: ["user_agent": "\(name)"])
      }
      throw ProxyError("This app is not known here: the operator of this push proxy has to add it.")
    }
    return Self.done
  }

  /// `DELETE /devices`
  private func unregister(_ request: Request, _ context: WireContext) async throws -> Response {
    let parameters = try await DeviceParameters(request, limit: proxy.configuration.maximumBodyBytes)
    try await proxy.unregister(SignedIdentifier(parameters))
    return Self.done
  }

  /// `POST /notifications`
  private func notify(_ request: Request, _ context: WireContext) async throws -> Response {
    let body = try await request.wholeBody(upTo: proxy.configuration.maximumNotificationsBytes)
    let deadline = ContinuousClock.now + proxy.configuration.deadline
    let (type, maximum) = (request.headers[.contentType] ?? "", proxy.configuration.maximumNotifications)
    let entries = try await LongRead.of(body.readableBytes) {
      try NotificationsBody.entries(body, type: type, maximum: maximum)
    }
    let receipt = try await proxy.notify(entries, by: deadline)
    return Envelope.response(
      .ok,
      [
        .init("unknown", .array(receipt.unknown.map(JSON.string))),
        .init("failed", .integer(Int64(receipt.failed))),
      ])
  }
}

/// A refusal of the proxy. It never has the keys `unknown` and `failed`: servers take any answer that has both
/// for one about their devices.
package struct ProxyError: Error {
  package let status: HTTPResponse.Status
  /// What is wrong and what would mend it.
  let message: String
  /// Seconds after which it may work.
  let retryAfter: Double?

  init(_ status: HTTPResponse.Status, _ message: String, retryAfter: Double? = nil) {
    self.status = status
    self.message = message
    self.retryAfter = retryAfter
  }

  /// 400: what the caller sent is wrong.
  init(_ message: String) {
    self.init(.badRequest, message)
  }

  /// For apps: `{"message": ...}`.
  var response: Response {
    Envelope.response(status, [.init("message", .string(message))], headers: headers)
  }

  /// For servers: plain text, as they show their admin a body only if it is no JSON; and 503 where others say
  /// 429, which has a server tell its admin that somebody else's limit was reached.
  var plainResponse: Response {
    var headers = headers
    headers[.contentType] = "text/plain; charset=utf-8"
    return Response(
      status: status == .tooManyRequests ? .serviceUnavailable : status, headers: headers,
      body: ResponseBody(byteBuffer: ByteBuffer(string: message + "\n")))
  }

  private var headers: HTTPFields {
    retryAfter.map { [.retryAfter: String(Int($0.rounded(.up)))] } ?? [:]
  }

  /// What passes by itself changes nothing about the devices.
  private static let tryAgainLater = ProxyError(
    .serviceUnavailable, "The service cannot take this now. Try again in a moment.", retryAfter: 5)

  /// Puts anything that a handler may throw into the proxy's own words.
  init(_ error: any Error, logger: Logger) {
    switch error {
    case let error as ProxyError: self = error
    case is NIOTooManyBytesError:
      self.init(.contentTooLarge, "The body is too large. Send fewer notifications at a time.")
    case is HTTPParserError:
      self.init("The request is malformed.")
    case let error as DatabaseError:
      // Its text names tables and constraints, never values.
      logger.error("database failed", metadata: ["code": "\(error.code)", "reason": "\(error.message)"])
      self = .tryAgainLater
    case is Outbox.Full, is BodyBudget.Exceeded, is CancellationError:
      self = .tryAgainLater
    default:
      // The type names the fault; the text could hold a value.
      logger.error("request failed", metadata: ["error": "\(DatabaseError.name(of: error))"])
      self.init(.internalServerError, "Internal server error")
    }
  }
}
