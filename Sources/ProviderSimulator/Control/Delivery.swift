package import Foundation
import NIOCore

/// A notification as it reached the simulator.
package struct Delivery: Sendable {
  /// Which of the two services it was meant for.
  package enum Provider: String, Sendable, CaseIterable {
    case apns, fcm
  }

  /// Its place in the order of arrival, from 1; refused ones are counted in.
  package internal(set) var sequence = 0
  /// Apple's service or Google's.
  package let provider: Provider
  /// The device token (APNs: as in the path) or registration token.
  package let token: String
  /// APNs: `apns-topic`. FCM: the project id.
  package let target: String
  /// The request's header fields in their order, names in lower case, without pseudo-headers and `authorization`.
  package let headers: [(name: String, value: String)]
  /// When it had arrived whole.
  package let receivedAt: Date
  /// The HTTP status of the answer.
  package let status: Int
  /// The reason (APNs) or error code (FCM) of a refusal.
  package let reason: String?
  /// The answer's `apns-id`, or FCM's message name.
  package let id: String
  let body: ByteBuffer

  /// Whether it was answered with 200.
  package var accepted: Bool { status == 200 }

  /// The request's body: what APNs hands to the app, or FCM's `{"message": {...}}`.
  package var payload: Data { Data(body.readableBytesView) }

  /// The value of a header field; `name` in lower case.
  package func header(_ name: String) -> String? {
    headers.first { $0.name == name }?.value
  }
}
