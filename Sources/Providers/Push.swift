package import Foundation
package import NIOCore

/// One notification for one token, as its provider wants it. It is coded to wait in the outbox.
package enum Push: Sendable, Codable {
  /// For Apple's service.
  case apns(APNsNotification)
  /// For Google's service.
  case fcm(FCMMessage)
  /// For the push service of a browser or a UnifiedPush distributor.
  case webPush(WebPushMessage)
}

/// A request to APNs: `POST /3/device/{token}`.
package struct APNsNotification: Sendable, Codable {
  /// `apns-push-type`.
  package enum PushType: String, Sendable, CaseIterable, Codable {
    case alert, background, voip, complication, fileprovider, mdm, liveactivity
  }

  /// The device token in hex, as it was registered.
  package var token: String
  /// `apns-topic`: the app's bundle id.
  package var topic: String
  /// The JSON body, at most 4096 bytes (5120 for VoIP).
  package var payload: ByteBuffer
  /// `apns-push-type`.
  package var pushType: PushType
  /// `apns-priority`: 10, 5 or 1; nil leaves the header out (Apple takes that for 10).
  package var priority: Int?
  /// `apns-expiration`; nil leaves the header out, 1970 means now or never.
  package var expiration: Date?
  /// `apns-collapse-id`, at most 64 bytes.
  package var collapseID: String?
  /// `apns-id`: stays the same on every try.
  package var id: UUID

  /// A notification; `id` is fresh unless given.
  package init(
    token: String, topic: String, payload: ByteBuffer, pushType: PushType, priority: Int? = nil,
    expiration: Date? = nil, collapseID: String? = nil, id: UUID = UUID()
  ) {
    self.token = token
    self.topic = topic
    self.payload = payload
    self.pushType = pushType
    self.priority = priority
    self.expiration = expiration
    self.collapseID = collapseID
    self.id = id
  }
}

/// A request to FCM HTTP v1: `POST /v1/projects/{project}/messages:send`.
package struct FCMMessage: Sendable, Codable {
  /// `android.priority`.
  package enum Priority: String, Sendable, CaseIterable, Codable {
    case high, normal
  }

  /// The registration token, or the Firebase installation id.
  package var token: String
  /// The Firebase project id; nil means the default project.
  package var project: String?
  /// `message.data`: at most 4096 bytes in all.
  package var data: [String: String]
  /// `android.priority`.
  package var priority: Priority?
  /// `android.ttl`, in whole seconds; nil leaves it to FCM (four weeks).
  package var timeToLive: Int?
  /// `android.collapse_key`.
  package var collapseKey: String?
  /// `validate_only`: whether FCM only says what it would do, and sends nothing.
  package var isOnlyValidated: Bool

  /// A data message.
  package init(
    token: String, project: String? = nil, data: [String: String], priority: Priority? = nil,
    timeToLive: Int? = nil, collapseKey: String? = nil, isOnlyValidated: Bool = false
  ) {
    self.token = token
    self.project = project
    self.data = data
    self.priority = priority
    self.timeToLive = timeToLive
    self.collapseKey = collapseKey
    self.isOnlyValidated = isOnlyValidated
  }

  /// Whether a token is a Firebase installation id: 22 characters of base64url, the first of them `c` to `f` (Firebase,
  /// "Manage Firebase installations"). Registration tokens are longer.
  package static func isInstallationID(_ token: String) -> Bool {
    guard token.utf8.count == 22, let first = token.utf8.first else { return false }
    return (UInt8(ascii: "c")...UInt8(ascii: "f")).contains(first)
      && token.utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
          UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "_"), UInt8(ascii: "-"):
          true
        default: false
        }
      }
  }
}
