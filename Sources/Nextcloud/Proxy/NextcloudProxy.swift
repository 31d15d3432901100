internal import Delivery
internal import HTTPTypes
public import Hummingbird
internal import Logging
internal import Registrations
public import Wire

/// The push proxy as Nextcloud's servers and apps know it: `/devices` and `/notifications`
/// (`spec/nextcloud.md` 5).
public struct NextcloudProxy: Sendable {
  let configuration: Configuration
  let dependencies: Dependencies
  let identityProof: IdentityProof
  let sent: SentNotifications
  private let devicesPerAddress: RateLimiter
  private let notificationsPerAddress: RateLimiter
  let proofsPerAddress: RateLimiter

  /// A proxy by its parts.
  public init(configuration: Configuration, dependencies: Dependencies) {
    self.configuration = configuration
    self.dependencies = dependencies
    let now = dependencies.now
    identityProof = IdentityProof(
      caFile: configuration.identityProofCAFile,
      allowPrivateAddresses: configuration.identityProofAllowsPrivateAddresses)
    sent = SentNotifications(now: now)
    devicesPerAddress = RateLimiter(configuration.rateLimitPerAddress, now: now)
    notificationsPerAddress = RateLimiter(configuration.rateLimitPerAddress, now: now)
    proofsPerAddress = RateLimiter(configuration.rateLimitOfProofs, now: now)
  }

  /// Adds the routes.
  public func addRoutes(to router: Router<WireContext>) {
    router.endpoint(
      "/devices",
      [
        .post: answering(devicesPerAddress, register), .delete: answering(devicesPerAddress, unregister),
      ])
    router.endpoint("/notifications", .post, use: answering(notificationsPerAddress, notify))
  }

  /// What every endpoint does before and after its own work.
  private func answering(
    _ limiter: RateLimiter, _ handler: @escaping @Sendable (Request, WireContext) async throws -> Response
  ) -> Router<WireContext>.Handler {
    { request, context in
      do {
        try Self.count(context.clientAddress, limiter)
        return try await handler(request, context)
      } catch {
        return ProxyError(error, logger: context.logger).response
      }
    }
  }

  /// Counts a call and refuses one that is too many.
  static func count(_ key: String, _ limiter: RateLimiter) throws(ProxyError) {
    guard let seconds = limiter.count(key).retryAfter else { return }
    throw ProxyError(
      .tooManyRequests, "Too many requests. Try again later.", retryAfter: Int(seconds.rounded(.up)))
  }

  /// Success: exactly 200 with a body, or apps take it for a failure (`spec/nextcloud.md` 5.0).
  static var done: Response { Envelope.response(.ok, []) }
}
