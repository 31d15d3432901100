import Foundation
import NIOCore
import NIOHPACK
import Providers

/// A push as a provider reads it.
struct ReceivedPush: Sendable {
  let token: String
  var id: String
  /// The notification's label, which the chat server put into the encrypted part.
  let label: String
  let isLegacy: Bool
  /// The encrypted part in base64, and the id of its push key.
  let sealed: String?
  let keyID: Int?

  /// A push that the vendor's bouncer has sent.
  init(to token: String, label: String, isLegacy: Bool) {
    (self.token, self.label, self.isLegacy) = (token, label, isLegacy)
    (id, sealed, keyID) = ("", nil, nil)
  }

  init(_ request: ProviderRequest, provider: Route.Provider) {
    let body = String(buffer: request.body())
    switch provider {
    case .apns:
      token = String((request.headers.first(name: ":path") ?? "").dropFirst("/3/device/".count))
      id = request.headers.first(name: "apns-id") ?? ""
    case .fcm, .webPush, .upstream:
      token = body.between(#""token":""#, "\"") ?? ""
      id = ""
    }
    label = body.between(World.plaintext, "\"") ?? Self.nextcloudLabel(body) ?? ""
    sealed = body.between(#""encrypted_data":""#, "\"")?.replacing(#"\/"#, with: "/")
    keyID = body.between(#""push_key_id":"#, ",").flatMap { Int($0.filter(\.isNumber)) }
    isLegacy = sealed == nil
  }
}

/// A push that a provider has taken.
///
/// Unchecked: the world has one thread.
final class Arrival: @unchecked Sendable {
  let push: ReceivedPush
  let time: Double
  /// The run of a node that sent it.
  let life: Life
  /// The error of its sender's time, in seconds.
  let ahead: Double
  /// When the sender got the answer; nil: it has none.
  var answeredAt: Double?
  /// Whether the answer is lost or comes too late.
  let isAnswerLost: Bool

  init(_ push: ReceivedPush, at time: Double, from life: Life, isAnswerLost: Bool) {
    (self.push, self.time, self.life, self.isAnswerLost) = (push, time, life, isAnswerLost)
    ahead = life.ahead()
  }
}

extension String {
  func between(_ start: String, _ end: String) -> String? {
    guard let start = range(of: start), let end = self[start.upperBound...].range(of: end) else { return nil }
    return String(self[start.upperBound..<end.lowerBound])
  }
}
