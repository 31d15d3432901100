internal import Delivery
package import Foundation
internal import HTTP
internal import HTTPTypes
internal import Hummingbird
package import Registrations
package import Sealing

extension ZulipBouncerRoutes {
  /// `POST push/e2ee/register` (`Documentation/Protocols/Zulip.md` 6.1).
  func registerE2EE(
    _ server: RemoteServer, _ request: Request, _ context: WireContext
  ) async throws -> Response {
    var parameters = try await Parameters.read(
      from: request, limit: configuration.maximumBodyBytes, lookedUp: "bouncer_public_key")
    let realmUUID = try parameters.required("realm_uuid")
    context.notes.note(realm: UUID(pythonText: realmUUID))
    let tokenID = try parameters.required("token_id")
    let sealed = try parameters.required("encrypted_push_registration")
    let publicKey = try parameters.required("bouncer_public_key")
    try await register(
      sealed, tokenID: TokenID(base64: tokenID), publicKey: publicKey, realm: UUID(realm: realmUUID),
      of: server)
    return parameters.success()
  }

  /// Opens what a phone has sealed and keeps its token. A registration that was there before is renewed, even if it had
  /// expired (`Documentation/Decisions` 0008).
  ///
  /// - Parameters:
  ///   - tokenID: of the sealed token, as the server knows it; nil for a text that is no id.
  ///   - publicKey: that it was sealed for, as the server spells it.
  package func register(
    _ sealed: String, tokenID: TokenID?, publicKey: String, realm: UUID, of server: RemoteServer
  ) async throws {
    let realm = try await caller(realm, of: server)
    let registration = try await open(sealed, publicKey: publicKey)
    guard registration.token.id == tokenID else { throw APIError.invalidRegistration }
    guard !registration.isExpired(at: dependencies.now()) else {
      // To a chat server this is for good, and to a phone: a clock that may be wrong must not say it.
      guard dependencies.mayExpire() else { throw APIError.rateLimited(retryAfter: "60") }
      throw APIError.requestExpired
    }
    guard await accepts(registration.token) else { throw APIError.invalidRegistration }
    try await dependencies.registrations.register(
      registration.token, iosAppID: registration.iosAppID, realm: realm.id, bouncerKey: publicKey)
    dependencies.deliverer.history?.registered(key: publicKey)
  }

  private func open(_ sealed: String, publicKey: String) async throws -> PushRegistration {
    let plaintext: [UInt8]
    do {
      plaintext = try dependencies.keyring().open(sealed, publicKey: publicKey)
    } catch .notOpened {
      throw APIError.invalidRegistration
    } catch {
      // A node that has not been given a new key yet must not refuse it for good.
      if Base64.decodeStrictly(publicKey)?.count == BouncerKeyPair.keyBytes,
        try await dependencies.bouncerKeys.isAnnounced(publicKey)
      {
        throw APIError.tryAgainLater
      }
      throw APIError.invalidPublicKey
    }
    guard let registration = PushRegistration(plaintext) else { throw APIError.invalidRegistration }
    return registration
  }
}

/// What a phone seals for its bouncer (`Documentation/Protocols/Zulip.md` 5.2).
struct PushRegistration {
  /// The device's token.
  let token: PushToken
  /// The app's bundle id: there for APNs, absent for FCM.
  let iosAppID: String?
  /// When the phone made it, in seconds since 1970.
  let timestamp: Int64

  /// Reads the opened JSON; nil if anything about it is wrong.
  init?(_ plaintext: [UInt8]) {
    guard let json = try? JSON.parse(plaintext), let text = json["token"]?.string,
      let kind = json["token_kind"]?.string.flatMap(PushToken.Kind.init),
      let token = try? PushToken(text, kind: kind),
      let timestamp = json["timestamp"].flatMap(Self.lenientInteger)
    else { return nil }
    switch (kind, json["ios_app_id"] ?? .null) {
    case (.apns, .string(let id)) where AppID.isValid(id): iosAppID = id
    case (.fcm, .null): iosAppID = nil
    default: return nil
    }
    self.token = token
    self.timestamp = timestamp
  }

  /// Upstream takes `5`, `5.0` and `"5"` for five.
  private static func lenientInteger(_ json: JSON) -> Int64? {
    switch json {
    case .integer(let value): value
    case .number(let text): Double(text).flatMap(Int64.init(exactly:))
    case .string(let text): Int64(text.strippingWhitespace())
    default: nil
    }
  }

  /// Whether it was made too long ago. Clocks differ, so one from the future is not refused.
  func isExpired(at now: Date) -> Bool {
    now.timeIntervalSince1970 - Double(timestamp) > Zulip.registrationLifetime
  }
}
