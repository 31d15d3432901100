internal import Foundation
package import HTTP
internal import Hummingbird
internal import Logging
package import Providers
internal import Registrations
package import Sealing

/// A notification as its users' phones will read it, before it is sealed for each
/// (`Documentation/Protocols/Zulip.md` 5.6, 6.6 and 10.6).
struct PlainNotification {
  /// What a provider takes, less what surrounds the sealed text.
  static let maximumBytes = (4096 - 256) / 4 * 3 - SecretBox.overhead

  /// The text to seal.
  let plaintext: [UInt8]
  private let shape: ProviderShape

  /// - Parameter removal: the shape of one that takes others away.
  /// - Throws: ``TooLarge``
  init(_ payload: JSON.Object, removal: ProviderShape) throws(TooLarge) {
    var payload = payload
    let isRemoval = payload["type"] == "remove"
    shape = isRemoval ? removal : .alert
    if isRemoval, case .array(let ids)? = payload["message_ids"], ids.count > Zulip.maximumRemovals {
      let newest = ids.sorted { ($0.integer ?? 0) < ($1.integer ?? 0) }.suffix(Zulip.maximumRemovals)
      payload["message_ids"] = .array(Array(newest))
    }
    plaintext = JSON.object(payload).bytes
    guard plaintext.count <= Self.maximumBytes else { throw TooLarge(bytes: plaintext.count) }
  }

  /// More than a provider takes.
  struct TooLarge: Error {
    let bytes: Int
  }

  /// The notification sealed for a device; nil for one that cannot get any.
  func sealed(for device: Device) -> SealedNotification? {
    guard let key = device.pushKey, let keyID = device.state.pushKeyID, let tokenID = device.state.tokenID,
      let kind = device.kind
    else { return nil }
    return SealedNotification(
      tokenID: tokenID, kind: kind, pushKeyID: Int64(keyID),
      encryptedData: Base64.encode(key.seal(plaintext)), shape: shape)
  }
}

/// A notification that one device can open.
package struct SealedNotification: Sendable {
  /// The device's token.
  package let tokenID: TokenID
  /// Whose token it is.
  package let kind: PushToken.Kind
  /// The device's name for the key that it is sealed with.
  package let pushKeyID: Int64
  /// What the device opens, in base64.
  package let encryptedData: String
  /// What its provider is told.
  package let shape: ProviderShape
}

/// What Apple and Google are told of a notification that they cannot read. Apps decide what it has to be, so
/// all of it stands here.
package struct ProviderShape: Sendable {
  /// What Apple may look at.
  package let aps: JSON.Object
  package let apnsPushType: APNsNotification.PushType
  package let apnsPriority: Int
  package let fcmPriority: FCMMessage.Priority

  /// The text is what a phone shows until its app has decrypted the rest; without a sound some stay silent.
  static let alert = ProviderShape(
    aps: ["mutable-content": 1, "alert": ["title": .string(Zulip.placeholder)], "sound": "default"],
    apnsPushType: .alert, apnsPriority: 10, fcmPriority: .high)

  /// Takes notifications away. iOS hands a push that shows nothing to the app only in this shape.
  package static let removal = ProviderShape(
    aps: ["content-available": 1], apnsPushType: .background, apnsPriority: 5, fcmPriority: .normal)

  /// The same for apps whose extension takes notifications away: iOS hands it alerts only. An app without Apple's filtering
  /// entitlement would show this one.
  package static let alertingRemoval = ProviderShape(
    aps: ["mutable-content": 1, "alert": ["title": .string(Zulip.placeholder)]], apnsPushType: .alert,
    apnsPriority: 5, fcmPriority: .normal)
}

extension ZulipServerRoutes {
  /// `POST mobile_push/e2ee/test_notification` (`Documentation/Protocols/Zulip.md` 10.7): to one device of
  /// the user, or to all.
  func sendTest(_ user: User, _ request: Request, _ context: WireContext) async throws -> Response {
    var parameters = try await Parameters.read(from: request, limit: configuration.maximumBodyBytes)
    let id = try parameters.optionalInteger("device_id")
    guard dependencies.registrar != nil else { throw APIError.pushServiceNotConfigured }
    let devices = try await dependencies.devices.active(user: user.id).filter { id == nil || $0.id == id }
    guard !devices.isEmpty else { throw APIError.noActiveDevice }
    let payload: JSON.Object = [
      "realm_name": .string(user.realm.name), "realm_url": .string(user.realm.url),
      "time": .integer(Int64(dependencies.now().timeIntervalSince1970)), "type": "test",
      "user_id": .integer(user.userID),
    ]
    do {
      let result = try await dependencies.notifier.send(payload, to: devices, of: user)
      guard result.gone < result.devices else { throw APIError.noActiveDevice }
    } catch let error as BouncerError {
      context.logger.warning("test notification failed", metadata: ["reason": "\(error)"])
      throw APIError(error)
    }
    return parameters.success()
  }
}
