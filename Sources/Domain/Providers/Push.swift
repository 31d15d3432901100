package import Foundation
package import NIOCore

/// One notification for one token, in its provider's format. `Codable`, because the outbox stores it.
package enum Push: Sendable, Codable {
  case apns(APNsNotification)
  case fcm(FCMMessage)
  /// For the push service of a browser or of a UnifiedPush distributor.
  case webPush(WebPushMessage)
  /// For the upstream bouncer.
  case upstream(UpstreamPush)

  package var provider: Route.Provider {
    switch self {
    case .apns: .apns
    case .fcm: .fcm
    case .webPush: .webPush
    case .upstream: .upstream
    }
  }

  /// Whether a phone shows it once even if it is sent twice: the provider recognizes it by `apns-id`, or replaces it by its
  /// collapse id.
  package var isRecognizedAgain: Bool {
    switch self {
    case .apns: true
    case .fcm(let message): message.collapseKey != nil
    case .webPush(let message): message.collapseID != nil
    case .upstream: false
    }
  }

  /// The notification's own expiration; one given in seconds counts from `start`.
  package func expiration(from start: Date) -> Date? {
    switch self {
    case .apns(let notification): notification.expiration
    case .fcm(let message): message.timeToLive.map { start + TimeInterval($0) }
    case .webPush(let message): message.timeToLive.map { start + TimeInterval($0) }
    case .upstream: nil
    }
  }

  /// Shortens a time to live that counts from when the push is sent, by the seconds for which it has waited.
  package mutating func wait(_ seconds: TimeInterval) {
    func rest(of timeToLive: Int?) -> Int? {
      timeToLive.map { max(min(1, $0), Int(Double($0) - max(0, seconds))) }
    }
    switch self {
    case .fcm(var message):
      message.timeToLive = rest(of: message.timeToLive)
      self = .fcm(message)
    case .webPush(var message):
      message.timeToLive = rest(of: message.timeToLive)
      self = .webPush(message)
    case .apns, .upstream: break
    }
  }

  /// The id that a newer push shares which replaces it in the outbox; nil if none may.
  package var collapseID: String? {
    switch self {
    case .apns(let notification): notification.collapseID
    case .fcm(let message): message.collapseKey ?? message.replacementID
    case .webPush(let message): message.collapseID
    case .upstream(let push): push.callID
    }
  }

  /// The name of a device in a push.
  package enum DeviceName: Sendable, Hashable {
    case token(String)
    /// Its token id, in base64.
    case tokenID(String)
  }

  /// The name of a registration's device; nil if the push is not for that registration.
  package func name(of registration: Int64) -> DeviceName? {
    switch self {
    case .apns(let notification): .token(notification.token)
    case .fcm(let message): .token(message.token)
    case .webPush(let message): .token(message.subscription.token)
    case .upstream(let push): push.name(of: registration).map { push.isShared ? .token($0) : .tokenID($0) }
    }
  }

  /// See ``APNsNotification/environment``; nil for other providers.
  package var environment: APNsCredential.Environment? {
    get { if case .apns(let notification) = self { notification.environment } else { nil } }
    set {
      guard case .apns(var notification) = self else { return }
      notification.environment = newValue
      self = .apns(notification)
    }
  }

  /// Sends it to another token of the same kind, which its app has got instead.
  ///
  /// - Parameter token: in its canonical spelling.
  package mutating func redirect(to token: String, in environment: APNsCredential.Environment? = nil) {
    switch self {
    case .apns(var notification):
      (notification.token, notification.environment) = (token, environment)
      self = .apns(notification)
    case .fcm(var message):
      message.token = token
      self = .fcm(message)
    case .webPush, .upstream: break
    }
  }

  /// The bytes of what it brings to the phone.
  package var payloadBytes: Int {
    switch self {
    case .apns(let notification): notification.payload.readableBytes
    case .fcm(let message): FCMMessage.size(of: message.data)
    case .webPush(let message): message.body.readableBytes
    case .upstream(let push): push.bytes
    }
  }

  /// A hash of the token, valid in this process only; nil for the upstream bouncer.
  package var tokenHash: Int? {
    switch self {
    case .apns(let notification): notification.token.hashValue
    case .fcm(let message): message.token.hashValue
    case .webPush(let message): message.subscription.endpoint.url.hashValue
    case .upstream: nil
    }
  }

  /// The route that a push waits for while no credential serves it: without a credential, but for Web Push with the push
  /// service.
  package var unservedRoute: Route {
    let (credential, target): (String, String) =
      switch self {
      case .apns(let notification): ("", notification.topic)
      case .fcm(let message): ("", message.project ?? "")
      case .webPush(let message): (message.subscription.endpoint.authority, "")
      case .upstream: ("", "")
      }
    return Route(provider: provider, credential: credential, target: target)
  }
}

/// A request to APNs: `POST /3/device/{token}`.
package struct APNsNotification: Sendable, Codable {
  /// `apns-push-type`.
  package enum PushType: String, Sendable, CaseIterable, Codable {
    case alert, background, voip, complication, fileprovider, mdm, liveactivity
  }

  /// In hex, as it was registered.
  package var token: String
  /// The app's bundle id.
  package var topic: String
  /// The JSON body, at most ``maximumPayload(_:)`` bytes.
  package var payload: ByteBuffer
  package var pushType: PushType
  /// 10, 5 or 1; nil leaves the header out (Apple takes that for 10).
  package var priority: Int?
  /// Nil leaves the header out; 1970 tells APNs to try once and not to store it.
  package var expiration: Date?
  /// At most 64 bytes.
  package var collapseID: String?
  /// `apns-id`: stays the same on every try.
  package var id: UUID
  /// The environment that has the token; nil if that is not known, so that production is asked first.
  package var environment: APNsCredential.Environment?

  /// The longest payload in bytes (Apple, "Generating a remote notification").
  package static func maximumPayload(_ pushType: PushType) -> Int { pushType == .voip ? 5120 : 4096 }

  package init(
    token: String, topic: String, payload: ByteBuffer, pushType: PushType, priority: Int? = nil,
    expiration: Date? = nil, collapseID: String? = nil, id: UUID = .random(),
    environment: APNsCredential.Environment? = nil
  ) {
    self.token = token
    self.topic = topic
    self.payload = payload
    self.pushType = pushType
    self.priority = priority
    self.expiration = expiration
    self.collapseID = collapseID
    self.id = id
    self.environment = environment
  }
}

extension UUID {
  /// A new UUID of version 4 (RFC 9562), from the system's generator. `UUID()` does the same, but opens `/dev/urandom` each
  /// time, which costs several times as much.
  package static func random() -> UUID {
    var bits = UInt128.random(in: 0 ... .max)
    bits = bits & ~(0xF << 76) | 0x4 << 76
    bits = bits & ~(0b11 << 62) | 0b10 << 62
    return withUnsafeBytes(of: bits.bigEndian) { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) }
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
    let bytes = name.utf8
    return bytes.elementsEqual("from".utf8) || bytes.elementsEqual("message_type".utf8)
      || bytes.starts(with: "google.".utf8) || bytes.starts(with: "gcm.notification".utf8)
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

extension UInt8 {
  var isAlphanumeric: Bool { isDigit || (0x61...0x7a).contains(self | 0x20) }
  var isDigit: Bool { (0x30...0x39).contains(self) }
  /// Whether base64url has it (RFC 4648 section 5).
  var isBase64URL: Bool { isAlphanumeric || self == UInt8(ascii: "-") || self == UInt8(ascii: "_") }
}
