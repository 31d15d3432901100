package import Foundation
package import HTTP
internal import HTTPTypes
package import Hummingbird
package import Registrations

/// The server endpoints that Zulip's apps register their devices with
/// (`Documentation/Protocols/Zulip.md` 10), for chats that have no push code of their own.
package struct ZulipServerRoutes: Sendable {
  /// The version whose behaviour this is.
  package static let version = "12.1"
  /// Its API feature level (`Documentation/Protocols/Zulip.md` 1.2).
  package static let featureLevel: Int64 = 500
  /// How long a client waits for events before it hears that it is still connected.
  static let heartbeat = Duration.seconds(50)

  /// How it is set up.
  package struct Configuration: Sendable {
    /// Calls per user; nil is no limit.
    package var rateLimitPerUser: RateLimit?
    /// Larger bodies are refused.
    package var maximumBodyBytes: Int

    /// A configuration by its parts.
    package init(rateLimitPerUser: RateLimit?, maximumBodyBytes: Int) {
      self.rateLimitPerUser = rateLimitPerUser
      self.maximumBodyBytes = maximumBodyBytes
    }
  }

  /// What it works with.
  package struct Dependencies: Sendable {
    /// Who signs in.
    package var accounts: AccountStore
    /// Their devices.
    package var devices: Devices
    /// Wakes those who wait for events.
    package var eventNotifier: EventNotifier
    /// Brings tokens to the bouncer; nil if there is none.
    package var registrar: Registrar?
    /// Tells the bouncer of old tokens that are no longer used; nil if there is none.
    package var unregistrar: LegacyUnregistrar?
    /// Sends notifications.
    package var notifier: Notifier
    /// The service's clock.
    package var now: @Sendable () -> Date

    /// What it works with.
    package init(
      accounts: AccountStore, devices: Devices, eventNotifier: EventNotifier, registrar: Registrar?,
      unregistrar: LegacyUnregistrar?, notifier: Notifier, now: @escaping @Sendable () -> Date
    ) {
      self.accounts = accounts
      self.devices = devices
      self.eventNotifier = eventNotifier
      self.registrar = registrar
      self.unregistrar = unregistrar
      self.notifier = notifier
      self.now = now
    }
  }

  let configuration: Configuration
  let dependencies: Dependencies
  let perUser: RateLimiter<Int64>
  let signIns: SignInGuard

  /// A server by its parts.
  package init(configuration: Configuration, dependencies: Dependencies) {
    self.configuration = configuration
    self.dependencies = dependencies
    perUser = RateLimiter(configuration.rateLimitPerUser, now: dependencies.now)
    signIns = SignInGuard(now: dependencies.now)
  }

  /// Adds the routes.
  package func addRoutes(to router: Router<WireContext>) {
    func path(_ endpoint: String) -> RouterPath { RouterPath("/api/v1/\(endpoint)") }

    router.endpoint(path("register"), .post, use: authenticated(openQueue))
    router.endpoint(
      path("events"), [.get: authenticated(events), .delete: authenticated(closeQueue)])
    router.endpoint(path("register_client_device"), .post, use: authenticated(addDevice))
    router.endpoint(path("remove_client_device"), .post, use: authenticated(removeDevice))
    router.endpoint(path("mobile_push/register"), .post, use: authenticated(registerDevice))
    // As the published page of the endpoint spells it.
    router.endpoint("/mobile_push/register", .post, use: authenticated(registerDevice))
    router.endpoint(path("mobile_push/e2ee/test_notification"), .post, use: authenticated(sendTest))

    router.endpoint(
      path("users/me/apns_device_token"),
      [.post: authenticated(addAPNsToken), .delete: authenticated(removeAPNsToken)])
    router.endpoint(
      path("users/me/android_gcm_reg_id"),
      [.post: authenticated(addFCMToken), .delete: authenticated(removeFCMToken)])
    router.endpoint(path("mobile_push/test_notification"), .post, use: authenticated(sendLegacyTest))
  }
}

/// Hummingbird has parameters of its own, those of a path.
typealias Parameters = HTTP.Parameters

extension ZulipServerRoutes {
  typealias UserHandler = @Sendable (User, Request, WireContext) async throws -> Response

  /// For calls of a signed-in user: so many per user (`Documentation/Protocols/Zulip.md` 10.1 and 2.7).
  func authenticated(_ handler: @escaping UserHandler) -> Router<WireContext>.Handler {
    { request, context in
      let user = try await authenticate(request, from: context.clientAddress)
      let standing = try perUser.check(user.id)
      var response = try await handler(user, request, context)
      response.headers.append(contentsOf: standing)
      return response
    }
  }

  private func authenticate(_ request: Request, from address: ClientAddress) async throws -> User {
    guard request.headers[.authorization] != nil else {
      throw APIError.notSignedIn
    }
    let credentials = try BasicCredentials(of: request)
    let key = credentials.password.strippingWhitespace()
    guard AccountStore.isAPIKey(key) else { throw APIError.malformedAPIKey }
    let email = credentials.user.strippingWhitespace()
    let attempt = SignInGuard.Attempt(from: address, account: email, secret: key)
    try signIns.admit(attempt)
    let user = try await dependencies.accounts.authenticate(email: email, apiKey: key)
    signIns.note(attempt, isRight: user != nil)
    guard let user else { throw APIError.invalidAPIKey }
    return user
  }
}
