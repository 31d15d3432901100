/// What happened since the start or the last reset.
package struct Counts: Sendable, Codable, Equatable {
  /// Notifications accepted by APNs.
  package var apns = 0
  /// Notifications accepted by FCM.
  package var fcm = 0
  /// Notifications accepted by the push service of Web Push.
  package var webPush = 0
  /// Notifications refused by any of them.
  package var refused = 0
  /// Connections that carried or could carry pushes: all to APNs, and those to the other ports that pushed.
  package var connections = 0
  /// Different provider tokens seen by APNs.
  package var jwts = 0
  /// Different VAPID tokens seen by the push service.
  package var vapidTokens = 0
  /// Access tokens issued.
  package var oauthTokens = 0

  enum CodingKeys: String, CodingKey {
    case apns, fcm, refused, connections, jwts
    case webPush = "webpush"
    case vapidTokens = "vapid_tokens"
    case oauthTokens = "oauth_tokens"
  }
}
