package import Delivery
package import Foundation
package import HTTP
package import HTTPTypes
package import Hummingbird
package import Logging
internal import NIOCore
internal import NIOHTTP1
package import Registrations
internal import SQL

/// The push proxy as Nextcloud's servers and apps know it: `/devices` and `/notifications`.
package struct NextcloudProxyRoutes: Sendable {
  let configuration: Configuration
  let dependencies: Dependencies
  let unknownApps: UnknownApps
  let sent: SentNotifications
  let newDevices: RateLimiter<ClientAddress>
  /// Of each device: all of them are kept to.
  let paces: [CellRate<Int64>]
  private let devicesPerAddress: RateLimiter<ClientAddress>
  private let notificationsPerAddress: RateLimiter<ClientAddress>

  /// A proxy by its parts.
  package init(configuration: Configuration, dependencies: Dependencies) {
    self.configuration = configuration
    self.dependencies = dependencies
    let now = dependencies.now
    unknownApps = UnknownApps(now: now)
    sent = SentNotifications(now: now)
    newDevices = RateLimiter(configuration.newDevicesPerAddress, now: now)
    paces = configuration.notificationsPerDevice.map { CellRate($0, windows: 1, now: now) }
    devicesPerAddress = RateLimiter(configuration.rateLimitPerAddress, now: now)
    notificationsPerAddress = RateLimiter(configuration.rateLimitPerAddress, now: now)
  }

  /// Adds the routes.
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
    _ handler: @escaping @Sendable (Request, WireContext) async throws -> Response
  ) -> Router<WireContext>.Handler {
    { request, context in
      do {
        if let seconds = limiter.count(context.clientAddress.source).retryAfter {
          throw ProxyError(
            .tooManyRequests, "Too many requests. Try again later.", retryAfter: Int(seconds.rounded(.up)))
        }
        return try await handler(request, context)
      } catch {
        return refusal(ProxyError(error, logger: context.logger))
      }
    }
  }

  /// Success: exactly 200 with a body, or apps take it for a failure.
  static var done: Response { Envelope.response(.ok, []) }
}

extension NextcloudProxyRoutes {
  /// What the operator decides.
  package struct Configuration: Sendable {
    /// `nextcloud.apps_file`
    package var apps: NextcloudApps
    /// `nextcloud.rate_limit.per_address`
    package var rateLimitPerAddress: RateLimit?
    /// `nextcloud.new_devices_per_address`
    package var newDevicesPerAddress: RateLimit?
    /// Notifications of a device that are sent at once, the rest at that pace. What FCM takes for one in a minute.
    var notificationsPerDevice: [RateLimit]
    /// `nextcloud.deadline`
    package var deadline: Duration
    /// `http.max_body_bytes`
    package var maximumBodyBytes: Int
    /// The same for `/notifications`.
    package var maximumNotificationsBytes: Int
    /// How many notifications one request may have.
    var maximumNotifications: Int

    /// The defaults.
    package init() {
      apps = NextcloudApps()
      rateLimitPerAddress = RateLimit(calls: 6000, seconds: 60)
      newDevicesPerAddress = RateLimit(calls: 1000, seconds: 3600)
      notificationsPerDevice = [
        RateLimit(calls: 240, seconds: 60), RateLimit(calls: 5000, seconds: 3600),
      ]
      deadline = .seconds(3)
      maximumBodyBytes = 1 << 20
      maximumNotificationsBytes = 16 << 20
      maximumNotifications = 20_000
    }
  }

  /// What it works with.
  package struct Dependencies: Sendable {
    /// The devices.
    package var devices: NextcloudDevices
    /// What deliveries find out about them.
    package var recorder: RegistrationStore
    /// Sends notifications.
    package var deliverer: Deliverer
    /// Which store was last served.
    package var lossDetector: StoreLossDetector
    /// The service's clock.
    package var now: @Sendable () -> Date
    /// Whether anything may be taken as expired now: not while the clock is doubted.
    package var mayExpire: @Sendable () -> Bool
    /// For what concerns no single request.
    package var logger: Logger

    /// What it works with.
    package init(
      devices: NextcloudDevices, recorder: RegistrationStore, deliverer: Deliverer,
      lossDetector: StoreLossDetector,
      now: @escaping @Sendable () -> Date, mayExpire: @escaping @Sendable () -> Bool = { true },
      logger: Logger
    ) {
      self.devices = devices
      self.recorder = recorder
      self.deliverer = deliverer
      self.lossDetector = lossDetector
      self.now = now
      self.mayExpire = mayExpire
      self.logger = logger
    }
  }
}

/// A refusal of the proxy. It never has the keys `unknown` and `failed`: servers take any answer that has both
/// for one about their devices.
package struct ProxyError: Error {
  package let status: HTTPResponse.Status
  /// What is wrong and what would mend it.
  let message: String
  /// Whole seconds after which it may work.
  let retryAfter: Int?

  init(_ status: HTTPResponse.Status, _ message: String, retryAfter: Int? = nil) {
    self.status = status
    self.message = message
    self.retryAfter = retryAfter
  }

  /// 400: what the caller sent is wrong.
  init(_ message: String) {
    self.init(.badRequest, message)
  }

  /// 503 for what will pass; it changes nothing about the devices.
  static var tryAgainLater: ProxyError {
    ProxyError(
      .serviceUnavailable, "The service cannot take this now. Try again in a moment.", retryAfter: 5)
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

  private var headers: HTTPFields { retryAfter.map { [.retryAfter: String($0)] } ?? [:] }

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
