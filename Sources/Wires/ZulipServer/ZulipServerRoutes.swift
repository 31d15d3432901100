import Basics
import Foundation
package import HTTP
import HTTPTypes
import Hummingbird
import Logging
import Providers
package import Registrations
import Sealing
import ZulipBouncer

/// The server endpoints at which Zulip's apps register their devices (`Documentation/Protocols/Zulip.md` 10),
/// for chats without push code of their own.
package struct ZulipServerRoutes: Sendable {
  /// The version of Zulip whose behaviour is implemented.
  package static let version = "12.1"
  /// Its API feature level (`Documentation/Protocols/Zulip.md` 1.2).
  package static let featureLevel: Int64 = 500

  let accounts: AccountStore
  let devices: Devices
  let eventNotifier: EventNotifier
  let notifier: Notifier
  private let maxBodyBytes: Int
  private let perUser: Rate<Int64>
  private let signIns: SignInGuard

  package init(
    _ settings: BuiltInServerSettings, http: HTTPSettings, accounts: AccountStore,
    eventNotifier: EventNotifier, notifier: Notifier
  ) {
    maxBodyBytes = http.maxBodyBytes
    self.accounts = accounts
    devices = notifier.devices
    self.eventNotifier = eventNotifier
    self.notifier = notifier
    perUser = Rate(settings.rateLimitPerUser, now: devices.now)
    signIns = SignInGuard(now: devices.now)
  }

  /// Adds the endpoints.
  package func addRoutes(to router: Routes) {
    func path(_ endpoint: String) -> RouterPath { RouterPath("/api/v1/\(endpoint)") }

    router.endpoint(path("register"), .post, use: authenticated(openQueue))
    router.endpoint(
      path("events"), [.get: authenticated(events), .delete: authenticated(closeQueue)])
    router.endpoint(path("register_client_device"), .post, use: authenticated(addDevice))
    router.endpoint(path("remove_client_device"), .post, use: authenticated(removeDevice))
    router.endpoint(path("mobile_push/register"), .post, use: authenticated(registerDevice))
    // The spelling on the endpoint's published page.
    router.endpoint("/mobile_push/register", .post, use: authenticated(registerDevice))
    router.endpoint(path("mobile_push/e2ee/test_notification"), .post, use: authenticated(sendTest))

    router.endpoint(
      path("users/me/apns_device_token"),
      [.post: authenticated(addAPNsToken), .delete: authenticated(removeLegacyToken(.apns))])
    router.endpoint(
      path("users/me/android_gcm_reg_id"),
      [.post: authenticated(addFCMToken), .delete: authenticated(removeLegacyToken(.fcm))])
    router.endpoint(path("mobile_push/test_notification"), .post, use: authenticated(sendLegacyTest))
  }

  typealias Members = [JSON.Object.Member]
  /// A handler that returns the members of a successful answer besides `result` and `msg`.
  typealias UserHandler = @Sendable (User, inout Parameters, WireContext) async throws -> Members

  /// Wraps a handler of calls by a signed-in user, which are limited per user (`Documentation/Protocols/Zulip.md` 10.1
  /// and 2.7).
  private func authenticated(_ handler: @escaping UserHandler) -> Routes.Handler {
    { request, context in
      let user = try await authenticate(request, from: context.clientAddress)
      let limitHeaders = try perUser.check(user.id)
      do {
        var parameters = try await Parameters.read(from: request, limit: maxBodyBytes)
        let members = try await handler(user, &parameters, context)
        var response = parameters.success(members, noting: context.notes)
        response.headers.append(contentsOf: limitHeaders)
        return response
      } catch let error as DeviceError {
        throw APIError(error.rawValue)
      }
    }
  }

  private func authenticate(_ request: Request, from address: ClientAddress) async throws -> User {
    guard request.headers[.authorization] != nil else {
      throw APIError.unauthorized("Not logged in: API authentication or user session required")
    }
    let credentials = try BasicCredentials(zulip: request)
    let key = credentials.password.strippingWhitespace()
    guard AccountStore.isAPIKey(key) else { throw APIError.unauthorized("Malformed API key") }
    let email = credentials.user.strippingWhitespace()
    let attempt = SignInGuard.Attempt(from: address, account: email, secret: key)
    try signIns.admit(attempt)
    let user = try await accounts.authenticate(email: email, apiKey: key)
    signIns.record(attempt, isRight: user != nil)
    guard let user else { throw APIError.unauthorized("Invalid API key") }
    return user
  }
}

/// Hummingbird has a type of the same name, for path parameters.
typealias Parameters = HTTP.Parameters

/// Devices (`Documentation/Protocols/Zulip.md` 10.2, 10.4 and 10.7).
extension ZulipServerRoutes {
  private func addDevice(_ user: User, _ parameters: inout Parameters, _ context: WireContext) async throws
    -> Members
  {
    return [.init("device_id", .integer(try await devices.add(user: user.id)))]
  }

  private func removeDevice(
    _ user: User, _ parameters: inout Parameters, _ context: WireContext
  ) async throws -> Members {
    try await devices.remove(try parameters.integer("device_id"), user: user.id)
    return []
  }

  /// Applies a client's request and answers at once; a token is sent to the bouncer afterwards.
  private func registerDevice(
    _ user: User, _ parameters: inout Parameters, _ context: WireContext
  ) async throws -> Members {
    let id = try parameters.integer("device_id")
    let registration = try DeviceRegistration(&parameters)
    guard let bouncer = notifier.bouncer else { throw APIError.pushServiceNotConfigured }
    if try await devices.register(registration, device: id, user: user.id) { bouncer.wakeRegistrations() }
    return []
  }

  /// Sends a test to one device of the user, or to all.
  private func sendTest(_ user: User, _ parameters: inout Parameters, _ context: WireContext) async throws
    -> Members
  {
    let id = try parameters.optionalInteger("device_id")
    guard notifier.bouncer != nil else { throw APIError.pushServiceNotConfigured }
    let devices = try await devices.active(user: user.id).filter { id == nil || $0.id == id }
    guard !devices.isEmpty else { throw APIError.noActiveDevice }
    let time = Int64(self.devices.now().timeIntervalSince1970)
    do {
      let result = try await notifier.send(
        ["type": "test", "time": .integer(time)], to: devices, of: user)
      guard result.gone < result.devices else { throw APIError.noActiveDevice }
    } catch let error as BouncerError {
      context.logger.warning("test notification failed", metadata: ["reason": "\(error)"])
      throw APIError(error)
    }
    return []
  }
}

extension DeviceRegistration {
  /// Longest sealed registration of any client: a token of 4096 bytes, sealed, in base64.
  private static let maximumSealed = 8192
  private static let maximumPublicKey = 256

  /// Incomplete groups of parameters count as absent.
  fileprivate init(_ parameters: inout Parameters) throws(APIError) {
    let kindText = parameters.optional("token_kind")
    let kind = kindText.flatMap(PushToken.Kind.init)
    if let kindText, kind == nil {
      throw APIError("Invalid token_kind: Value error, \(kindText.prefix(16)) is neither fcm nor apns")
    }
    let key = parameters.optional("push_key")
    let keyNumber = try parameters.optionalInteger("push_key_id")
    let keyID = keyNumber.flatMap(UInt32.init(exactly:))
    if keyNumber != nil, keyID == nil {
      throw APIError("Invalid push_key_id: Value error, Not a valid unsigned 32-bit integer")
    }
    let publicKey = try parameters.optionalText(
      "bouncer_public_key", .verbatim(maximum: Self.maximumPublicKey))
    let sealed = try parameters.optionalText(
      "encrypted_push_registration", .verbatim(maximum: Self.maximumSealed))
    let tokenID = parameters.optional("token_id")
    if let key, let keyID { self.key = Key(id: keyID, key: PushKey(base64: key)) }
    if let kind, let publicKey, let sealed, let tokenID {
      token = Token(kind: kind, id: TokenID(base64: tokenID), bouncerPublicKey: publicKey, sealed: sealed)
    }
  }
}
