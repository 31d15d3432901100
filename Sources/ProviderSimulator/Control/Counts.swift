/// What happened since the start or the last reset.
public struct Counts: Sendable, Codable, Equatable {
  /// Notifications accepted by APNs.
  public var apns = 0
  /// Notifications accepted by FCM.
  public var fcm = 0
  /// Notifications refused by either.
  public var refused = 0
  /// Connections that carried or could carry pushes: all to APNs, and those to the FCM port that pushed.
  public var connections = 0
  /// Different provider tokens seen by APNs.
  public var jwts = 0
  /// Access tokens issued.
  public var oauthTokens = 0

  enum CodingKeys: String, CodingKey {
    case apns, fcm, refused, connections, jwts
    case oauthTokens = "oauth_tokens"
  }
}
