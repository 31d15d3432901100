import Basics
import Foundation

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
  /// Names and values have at most ``maximumData`` bytes together; no name is reserved.
  package var data: [String: String]
  package var priority: Priority?
  /// `android.ttl`, in whole seconds; nil leaves it to FCM (four weeks).
  package var timeToLive: Int?
  /// `android.collapse_key`.
  package var collapseKey: String?
  /// A newer message with the same id replaces this one while it waits here. FCM is not told: it keeps only four collapse
  /// keys for a phone that is offline.
  package var replacementID: String?
  /// `validate_only`: whether FCM only says what it would do, and sends nothing.
  package var isOnlyValidated: Bool

  package static let maximumData = 4096

  /// Whether FCM refuses a name in `data` (Firebase, REST reference, `projects.messages`, `data`).
  package static func isReserved(_ name: String) -> Bool {
    switch name.utf8.first {
    case UInt8(ascii: "f"): name.hasBytes(of: "from")
    case UInt8(ascii: "m"): name.hasBytes(of: "message_type")
    case UInt8(ascii: "g"): ["google.", "gcm.notification"].contains { name.utf8.starts(with: $0.utf8) }
    default: false
    }
  }

  /// The bytes of names and values together.
  package static func size(of data: [String: String]) -> Int {
    data.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count }
  }

  package init(
    token: String, project: String? = nil, data: [String: String], priority: Priority? = nil,
    timeToLive: Int? = nil, collapseKey: String? = nil, replacementID: String? = nil,
    isOnlyValidated: Bool = false
  ) {
    self.token = token
    self.project = project
    self.data = data
    self.priority = priority
    self.timeToLive = timeToLive
    self.collapseKey = collapseKey
    self.replacementID = replacementID
    self.isOnlyValidated = isOnlyValidated
  }

  /// Whether a token is a Firebase installation id: 22 characters of base64url, the first of them `c` to `f` (Firebase,
  /// "Manage Firebase installations"). Registration tokens are longer.
  package static func isInstallationID(_ token: String) -> Bool {
    guard token.utf8.count == 22, let first = token.utf8.first else { return false }
    return (UInt8(ascii: "c")...UInt8(ascii: "f")).contains(first) && token.utf8.allSatisfy(\.isBase64URL)
  }
}

extension FCMMessage: ProviderMessage {
  var push: Push { .fcm(self) }
  /// By its collapse key.
  var isRecognizedAgain: Bool { collapseKey != nil }
  var collapseID: String? { collapseKey ?? replacementID }
  var payloadBytes: Int { Self.size(of: data) }
  var tokenHash: Int? { token.hashValue }
  var unservedRoute: Route { Route(provider: .fcm, credential: "", target: project ?? "") }
  var fits: Bool { payloadBytes <= Self.maximumData }

  func expiration(from start: Date) -> Date? { timeToLive.map { start + TimeInterval($0) } }
  mutating func wait(_ seconds: TimeInterval) { timeToLive = Self.rest(of: timeToLive, after: seconds) }
  func name(of registration: Int64) -> Push.DeviceName? { .token(token) }
  mutating func redirect(to token: String, in environment: APNsCredential.Environment?) { self.token = token }

  mutating func follow(_ present: String, of target: String?) -> Bool {
    // A token of another provider's may have taken the place of one of Google's.
    guard token != present, PushToken.named(by: present) == nil else { return false }
    token = present
    return true
  }
}

extension Push {
  /// Whether FCM does not know the device, which has a Firebase installation id: apps get one before FCM knows it
  /// (firebase-ios-sdk, issue 16429).
  package func isOfUnknownInstallation(_ outcome: Outcome) -> Bool {
    guard case .dead(.fcmUnregistered, _) = outcome, case .fcm(let message) = self else { return false }
    return FCMMessage.isInstallationID(message.token)
  }
}
