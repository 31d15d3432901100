import Foundation
package import HTTP
import NIOCore
import Providers
import Registrations
import Sealing

/// A notification in clear, as a chat server hands it over (`Documentation/Protocols/Zulip.md` 7.5 and 7.7).
package struct LegacyNotification: Sendable {
  /// How long a provider keeps it for a phone that is off, in seconds.
  private static let lifetime: TimeInterval = 86_400

  private let apns: JSON.Object
  private let fcm: JSON.Object
  private let options: JSON.Object

  /// - Parameters:
  ///   - apns: `aps` and, in `custom`, what stands beside it.
  ///   - fcm: `data`, before its values are made text.
  ///   - options: `gcm_options`.
  init(apns: JSON.Object, fcm: JSON.Object, options: JSON.Object) {
    self.apns = apns
    self.fcm = fcm
    self.options = options
  }

  /// Reads it from the body of `push/notify`, or from members that are called like that one's.
  package init(_ body: Field) throws(APIError) {
    var fcm = try body.object("gcm_payload")
    try Self.truncate(&fcm, body["gcm_payload"])
    var apns = try body.object("apns_payload")
    if case .object(var custom)? = apns["custom"], case .object(var zulip)? = custom["zulip"] {
      try Self.truncate(&zulip, body["apns_payload"]["custom"]["zulip"])
      custom["zulip"] = .object(zulip)
      apns["custom"] = .object(custom)
    }
    self.init(apns: apns, fcm: fcm, options: try body.object("gcm_options"))
  }

  private static func truncate(_ data: inout JSON.Object, _ field: Field) throws(APIError) {
    guard data["event"]?.string == "remove", let text = data["zulip_message_ids"]?.string, !text.isEmpty
    else {
      return
    }
    var ids: [Int64] = []
    for word in text.utf8.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false) {
      guard let id = Int64(String(Substring(word)).strippingWhitespace()) else {
        throw field["zulip_message_ids"].error("has invalid format")
      }
      ids.append(id)
    }
    data["zulip_message_ids"] = .string(
      ids.sorted().suffix(Zulip.maximumRemovals).map(String.init).joined(separator: ","))
  }

  /// Whether there is anything for APNs; a server that thinks that a user has no such device sends nothing.
  var hasAPNs: Bool { !apns.members.isEmpty }
  /// Whether there is anything for FCM.
  var hasFCM: Bool { !fcm.members.isEmpty }

  /// What its devices with APNs get, but for the token; nil for one that names no app.
  func apnsPush(for registration: Registration, payload: ByteBuffer, now: Date) -> Push? {
    guard let topic = registration.iosAppID else { return nil }
    return .apns(
      APNsNotification(
        token: registration.token.text, topic: topic, payload: payload,
        pushType: isSilentRemoval ? .background : .alert, priority: isSilentRemoval ? 5 : nil,
        expiration: Date(timeIntervalSince1970: (now.timeIntervalSince1970 + Self.lifetime).rounded(.down))))
  }

  /// The body for APNs: what is in `custom` beside `aps`, which is all the rest.
  var apnsPayload: ByteBuffer {
    var aps = apns
    aps["custom"] = nil
    var body = JSON.Object()
    if case .object(let custom)? = apns["custom"] { body = custom }
    body["aps"] = .object(aps)
    return ByteBuffer(bytes: JSON.object(body).bytes)
  }

  private var isSilentRemoval: Bool {
    apns["alert"] == nil && apns["custom"]?["zulip"]?["event"]?.string == "remove"
  }

  /// The data for FCM, all of it text, but for members with names that no app could read.
  var fcmData: [String: String] {
    Dictionary(
      fcm.members.lazy.filter { $0.name.text.isStorable }.map { ($0.name.text, $0.value.pythonText) },
      uniquingKeysWith: { $1 })
  }

  /// How urgent it is for FCM.
  func fcmPriority() throws(APIError) -> FCMMessage.Priority {
    var others = options
    others["priority"] = nil
    let priority: FCMMessage.Priority
    switch options["priority"] {
    case nil: priority = fcm["event"] == "message" ? .high : .normal
    case "high": priority = .high
    case "normal": priority = .normal
    case .some(let other):
      throw APIError.invalidGCMPriority(other)
    }
    guard others.members.isEmpty else {
      throw APIError.invalidGCMOptions(others)
    }
    return priority
  }
}

extension Field {
  /// The object that a member is; an empty one if it is not there.
  func object(_ name: String) throws(APIError) -> JSON.Object { try self[name].ifSent?.members() ?? [:] }
}
