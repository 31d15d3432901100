internal import Sealing
internal import Wire

/// A notification as its users' phones will read it, before it is sealed for each
/// (`Documentation/Protocols/Zulip.md` 5.6, 6.5 and 10.6).
struct PlainNotification {
  /// A removal tells of so many messages at most: the newest.
  private static let maximumRemovals = 200
  /// What a provider takes, less what surrounds the sealed text.
  static let maximumBytes = (4096 - 256) / 4 * 3 - SecretBox.overhead

  /// The text to seal.
  let plaintext: [UInt8]
  private let shape: ProviderShape

  /// - Throws: ``TooLarge``
  init(_ payload: JSON.Object) throws(TooLarge) {
    var payload = payload
    let isRemoval = payload["type"] == "remove"
    shape = isRemoval ? .removal : .alert
    if isRemoval, case .array(let ids)? = payload["message_ids"], ids.count > Self.maximumRemovals {
      let newest = ids.sorted { ($0.integer ?? 0) < ($1.integer ?? 0) }.suffix(Self.maximumRemovals)
      payload["message_ids"] = .array(Array(newest))
    }
    plaintext = JSON.object(payload).bytes
    guard plaintext.count <= Self.maximumBytes else { throw TooLarge(bytes: plaintext.count) }
  }

  /// More than a provider takes.
  struct TooLarge: Error {
    let bytes: Int
  }

  /// The item of `push/e2ee/notify` for a device; nil for one that cannot get any.
  func request(for device: Device) -> JSON? {
    guard let key = device.pushKey, let keyID = device.state.pushKeyID, let tokenID = device.state.tokenID,
      let kind = device.kind
    else { return nil }
    var payload: JSON.Object = [
      "push_key_id": .integer(Int64(keyID)), "encrypted_data": .string(Base64.encode(key.seal(plaintext))),
    ]
    switch kind {
    case .apns:
      payload["aps"] = shape.aps
      return [
        "token_id": .string(tokenID.base64),
        "http_headers": ["apns_priority": shape.apnsPriority, "apns_push_type": shape.apnsPushType],
        "payload": .object(payload),
      ]
    case .fcm:
      return [
        "token_id": .string(tokenID.base64), "fcm_priority": shape.fcmPriority, "payload": .object(payload),
      ]
    }
  }
}

/// What Apple and Google are told of a notification that they cannot read. Apps decide what it has to be, so
/// all of it stands here.
private struct ProviderShape {
  let aps: JSON
  let apnsPushType: JSON
  let apnsPriority: JSON
  let fcmPriority: JSON

  /// The text is what a phone shows until its app has decrypted the rest; without a sound some stay silent.
  static let alert = ProviderShape(
    aps: ["mutable-content": 1, "alert": ["title": "New notification"], "sound": "default"],
    apnsPushType: "alert", apnsPriority: 10, fcmPriority: "high")

  /// Takes notifications away. iOS hands a push that shows nothing to the app only in this shape; stock
  /// servers send an alert in a background push, which the app's extension does not take.
  static let removal = ProviderShape(
    aps: ["content-available": 1], apnsPushType: "background", apnsPriority: 5, fcmPriority: "normal")
}
