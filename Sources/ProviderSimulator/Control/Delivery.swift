package import Foundation
import NIOCore

/// A notification as it reached the simulator.
package struct Delivery: Sendable {
  /// Which service it was meant for.
  package enum Provider: String, Sendable, CaseIterable {
    case apns, fcm
    case webPush = "webpush"
  }

  /// Its place in the order of arrival, from 1; refused ones are counted in.
  package internal(set) var sequence = 0
  /// Apple's service, Google's or a push service of Web Push.
  package let provider: Provider
  /// The device token (APNs: as in the path), the registration token or installation id, or the
  /// subscription's id.
  package let token: String
  /// APNs: `apns-topic`. FCM: the project id. Web Push: the origin that it was sent to.
  package let target: String
  /// The request's header fields in their order, names in lower case, without pseudo-headers and `authorization`.
  package let headers: [(name: String, value: String)]
  /// When it had arrived whole.
  package let receivedAt: Date
  /// The HTTP status of the answer.
  package let status: Int
  /// The reason (APNs, Web Push) or error code (FCM) of a refusal.
  package let reason: String?
  /// The answer's `apns-id`, FCM's message name, or the push service's message id.
  package let id: String
  var body: ByteBuffer

  /// Whether it was answered with 200, or by the push service with 201.
  package var accepted: Bool { (200..<300).contains(status) }

  /// The request's body: what APNs hands to the app, FCM's `{"message": {...}}`, or what only the phone can open.
  package var payload: Data { Data(body.readableBytesView) }

  /// The value of a header field; `name` in lower case.
  package func header(_ name: String) -> String? {
    headers.first { $0.name == name }?.value
  }
}
