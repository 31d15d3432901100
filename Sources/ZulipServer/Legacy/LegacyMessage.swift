package import HTTP
internal import Sealing

/// A notification as old apps read it, in clear (`Documentation/Protocols/Zulip.md` 7.5).
package struct LegacyMessage: Sendable {
  /// For APNs: `aps` and, in `custom`, what stands beside it.
  package private(set) var apns: JSON.Object
  /// For FCM: `data`, whose values the bouncer makes text.
  package private(set) var fcm: JSON.Object
  /// For FCM: how urgent it is.
  package let fcmOptions: JSON.Object

  /// Reads `{"apns_payload", "gcm_payload", "gcm_options"}`, each of which may be missing.
  package init(_ field: Field) throws(APIError) {
    try field.forbidMembers(except: ["apns_payload", "gcm_payload", "gcm_options"])
    func object(_ name: String) throws(APIError) -> JSON.Object { try field[name].present?.members() ?? [:] }
    (apns, fcm, fcmOptions) = (
      try object("apns_payload"), try object("gcm_payload"), try object("gcm_options")
    )
    guard !apns.members.isEmpty || !fcm.members.isEmpty else {
      throw field.error("wants apns_payload or gcm_payload")
    }
  }

  /// The same without what there is no device for.
  func reduced(to tokens: [PushToken]) -> LegacyMessage {
    var message = self
    if !tokens.contains(where: { $0.kind == .apns }) { message.apns = [:] }
    if !tokens.contains(where: { $0.kind == .fcm }) { message.fcm = [:] }
    return message
  }
}
