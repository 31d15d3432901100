package import Foundation
package import NIOCore

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

extension APNsNotification: ProviderMessage {
  var push: Push { .apns(self) }
  /// By `apns-id`.
  var isRecognizedAgain: Bool { true }
  var payloadBytes: Int { payload.readableBytes }
  var tokenHash: Int? { token.hashValue }
  var unservedRoute: Route { Route(provider: .apns, credential: "", target: topic) }
  var fits: Bool { payloadBytes <= Self.maximumPayload(pushType) }

  func expiration(from start: Date) -> Date? { expiration }
  func name(of registration: Int64) -> Push.DeviceName? { .token(token) }

  mutating func redirect(to token: String, in environment: APNsCredential.Environment?) {
    (self.token, self.environment) = (token, environment)
  }

  mutating func follow(_ present: String, of target: String?) -> Bool {
    let present = present.lowercased()
    // One of another app would be called wrong.
    guard token != present, topic == target else { return false }
    redirect(to: present, in: nil)
    return true
  }
}

extension Push {
  /// See ``APNsNotification/environment``; nil for other providers.
  package var environment: APNsCredential.Environment? {
    get { if case .apns(let notification) = self { notification.environment } else { nil } }
    set {
      guard case .apns(var notification) = self else { return }
      notification.environment = newValue
      self = .apns(notification)
    }
  }
}
