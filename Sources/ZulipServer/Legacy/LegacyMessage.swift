package import Wire

/// A notification as old apps read it, in clear (`Documentation/Protocols/Zulip.md` 7.5).
package struct LegacyMessage: Sendable {
  /// For APNs: `aps` and, in `custom`, what stands beside it.
  let apns: JSON.Object
  /// For FCM: `data`, whose values the bouncer makes text.
  let fcm: JSON.Object
  /// For FCM: how urgent it is.
  let fcmOptions: JSON.Object

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
}
