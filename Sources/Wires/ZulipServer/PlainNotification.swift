import Foundation
import HTTP
import Providers
import Registrations
import Sealing
import ZulipBouncer

/// The plaintext of a notification, before it is encrypted for each device
/// (`Documentation/Protocols/Zulip.md` 5.6, 6.6 and 10.6).
struct PlainNotification {
  /// The largest plaintext in bytes: what a provider accepts, minus the fields around the ciphertext.
  static let maximumBytes = (4096 - 256) / 4 * 3 - SecretBox.overhead

  private let plaintext: [UInt8]
  private let shape: ProviderShape

  /// - Parameter removal: how removals are sent.
  /// - Throws: the 400 for a notification larger than a provider accepts.
  init(_ payload: JSON.Object, removal: ProviderShape) throws(APIError) {
    var payload = payload
    let isRemoval = payload["type"] == "remove"
    shape = isRemoval ? removal : .alert
    if isRemoval, case .array(let ids)? = payload["message_ids"], ids.count > Zulip.maximumRemovals {
      let newest = ids.sorted { ($0.integer ?? 0) < ($1.integer ?? 0) }.suffix(Zulip.maximumRemovals)
      payload["message_ids"] = .array(Array(newest))
    }
    plaintext = JSON.object(payload).bytes
    guard plaintext.count <= Self.maximumBytes else {
      throw APIError(
        "the notification is too large (\(plaintext.count) bytes, limit: \(Self.maximumBytes))")
    }
  }

  /// The notification encrypted for a device; nil if the device cannot get any.
  func sealed(for device: Device) -> NotifyRequest.Item? {
    guard let key = device.pushKey, let keyID = device.state.pushKeyID, let tokenID = device.state.tokenID,
      let kind = device.kind
    else { return nil }
    return try? NotifyRequest.Item(
      tokenID: tokenID, pushKeyID: Int64(keyID), encryptedData: Base64.encode(key.seal(plaintext)),
      kind == .apns ? shape.apns : shape.fcm)
  }
}

/// The unencrypted part of an encrypted notification, for Apple and Google. Apps decide what it must contain,
/// so all of it is defined here.
package struct ProviderShape: Sendable {
  let apns: NotifyRequest.Item.Shape
  let fcm: NotifyRequest.Item.Shape

  /// The form of alerts. The text is shown until the phone's app has decrypted the rest; some phones stay silent without a
  /// sound.
  static let alert = ProviderShape(
    apns: .apns(
      pushType: .alert, priority: 10,
      aps: ["mutable-content": 1, "alert": ["title": .string(Zulip.placeholder)], "sound": "default"]),
    fcm: .fcm(priority: .high))

  /// The form of removals. iOS passes a push that shows nothing to the app only in this form.
  package static let removal = ProviderShape(
    apns: .apns(pushType: .background, priority: 5, aps: ["content-available": 1]),
    fcm: .fcm(priority: .normal))

  /// The form of removals for apps whose extension removes notifications, which iOS wakes for alerts only. An app without
  /// Apple's filtering entitlement would show this one.
  package static let alertingRemoval = ProviderShape(
    apns: .apns(
      pushType: .alert, priority: 5,
      aps: ["mutable-content": 1, "alert": ["title": .string(Zulip.placeholder)]]),
    fcm: .fcm(priority: .normal))
}
