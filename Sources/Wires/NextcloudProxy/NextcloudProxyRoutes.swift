import Basics
import Delivery
import Foundation
package import HTTP
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import NIOHTTP1
import SQL

/// The endpoints of the push proxy for Nextcloud's servers and apps: `/devices` and `/notifications`.
package struct NextcloudProxyRoutes: Sendable {
  private typealias Handler = @Sendable (Request, WireContext) async throws -> Response

  /// Maximum number of notifications in one request.
  private static let maximumNotifications = 20_000

  private let proxy: PushProxy
  private let devicesPerAddress: Rate<ClientAddress>
  private let notificationsPerAddress: Rate<ClientAddress>

  package init(_ proxy: PushProxy) {
    self.proxy = proxy
    let limit = proxy.settings.rateLimitPerAddress
    devicesPerAddress = Rate(limit, now: proxy.now)
    notificationsPerAddress = Rate(limit, now: proxy.now)
  }

  package func addRoutes(to router: Routes) {
    router.endpoint(
      "/devices",
      [
        .post: answering(devicesPerAddress, \.deviceResponse, register),
        .delete: answering(devicesPerAddress, \.deviceResponse, unregister),
      ])
    router.endpoint(
      "/notifications", [.post: answering(notificationsPerAddress, \.plainResponse, notify)], isPlain: true)
  }

  /// Wraps a handler with what all endpoints share: the rate limit, the wait for the database, and error answers.
  private func answering(
    _ limiter: Rate<ClientAddress>, _ refusal: @escaping @Sendable (APIError) -> Response,
    _ handler: @escaping Handler
  ) -> Handler {
    { request, context in
      do {
        if let seconds = limiter.count(context.clientAddress.source).retryAfter {
          throw APIError.tooMany("Too many requests. Try again later.", retryAfter: seconds)
        }
        return try await DatabaseWait.wait(upTo: PushProxy.databaseWait) {
          try await handler(request, context)
        }
      } catch {
        return refusal(APIError(ofProxy: error, logger: context.logger))
      }
    }
  }

  /// The success answer: apps accept only 200 with a body.
  private static var done: Response { Envelope.response(.ok, []) }

  /// `POST /devices`. The documented `cloudId` is not needed.
  private func register(_ request: Request, _ context: WireContext) async throws -> Response {
    let parameters = try await DeviceParameters(request, limit: proxy.http.maxBodyBytes)
    context.notes.record(parameters.additions)
    let token = try parameters.required("pushToken")
    guard TokenShape(token) != nil else {
      throw APIError("pushToken is malformed: it is no token of APNs or FCM.")
    }
    do {
      try await proxy.register(
        token: token, SignedIdentifier(parameters), userAgents: parameters.userAgents,
        from: context.clientAddress)
    } catch let error as PushProxy.UnknownApp {
      if let name = error.name {
        context.logger.warning(
          """
          an unknown app was refused: to admit it, add an entry with a matching user_agent to \
          nextcloud.apps_file, or set nextcloud.default_app
          """, metadata: ["user_agent": "\(name)"])
      }
      throw APIError("This app is not known here: the operator of this push proxy has to add it.")
    }
    return Self.done
  }

  /// `DELETE /devices`
  private func unregister(_ request: Request, _ context: WireContext) async throws -> Response {
    let parameters = try await DeviceParameters(request, limit: proxy.http.maxBodyBytes)
    context.notes.record(parameters.additions)
    try await proxy.unregister(SignedIdentifier(parameters))
    return Self.done
  }

  /// `POST /notifications`
  private func notify(_ request: Request, _ context: WireContext) async throws -> Response {
    let body = try await request.wholeBody(upTo: proxy.http.largestBodyBytes)
    let deadline = ContinuousClock.now + proxy.settings.deadline
    let (type, longestJSON) = (
      request.headers[.contentType] ?? "", proxy.http.maxBodyBytes
    )
    let entries = try await LongRead.of(body.readableBytes) {
      try NotificationsBody(
        body, type: type, maximum: Self.maximumNotifications, longestJSON: longestJSON)
    }
    let (receipt, additions) = try await proxy.notify(
      entries, from: context.clientAddress.source, by: deadline)
    context.notes.record(additions)
    return Envelope.response(
      .ok,
      [
        .init("unknown", .array(receipt.unknown.map(JSON.string))),
        .init("failed", .integer(Int64(receipt.failed))),
      ])
  }
}

/// The proxy's refusals. Their bodies never have the keys `unknown` and `failed`: servers read any answer that
/// has both as one about their devices.
extension APIError {
  /// The answer for apps: `{"message": ...}`.
  var deviceResponse: Response {
    Envelope.response(status, [.init("message", .string(message))], headers: headers)
  }

  /// The answer for servers: plain text, because they show their admin a body only if it is not JSON; and 503
  /// in place of 429, which servers report to their admin as somebody else's rate limit.
  var plainResponse: Response {
    var headers = headers
    headers[.contentType] = "text/plain; charset=utf-8"
    return Response(
      status: status == .tooManyRequests ? .serviceUnavailable : status, headers: headers,
      body: ResponseBody(byteBuffer: ByteBuffer(string: message + "\n")))
  }

  /// The answer to temporary faults, which change nothing about the devices.
  private static var proxyIsBusy: APIError {
    .unavailable("The service cannot take this now. Try again in a moment.", retryAfter: 5)
  }

  /// Converts any error of a handler, and logs those that the caller must not see.
  init(ofProxy error: any Error, logger: Logger) {
    switch error {
    case is NIOTooManyBytesError:
      self.init(.contentTooLarge, "The body is too large. Send fewer notifications at a time.")
    case is HTTPParserError: self.init("The request is malformed.")
    case is Outbox.Full, is BodyBudget.Exceeded, is CancellationError: self = .proxyIsBusy
    default:
      let answer = APIError(error, logger: logger)
      self = error is DatabaseError ? .proxyIsBusy : answer
    }
  }
}
