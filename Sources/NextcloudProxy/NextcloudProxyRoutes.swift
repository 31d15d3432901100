internal import Delivery
package import HTTP
internal import HTTPTypes
package import Hummingbird
internal import Logging

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
