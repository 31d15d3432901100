import Foundation
import HTTPClient
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
  /// The encrypted part and its signature, if it is Nextcloud's.
  let subject, signature: [UInt8]?
  /// What is the Web Push gateway's, if it is from there.
  private(set) var gateway: GatewayPush?
  /// Apple's topic, and the id of the key that the request is signed with.
  let topic, key: String?

  /// A push that the upstream bouncer has sent.
  init(to token: String, label: String, isLegacy: Bool) {
    (self.token, self.label, self.isLegacy) = (token, label, isLegacy)
    (id, sealed, keyID, topic, key) = ("", nil, nil, nil, nil)
    (subject, signature) = (nil, nil)
  }

  /// A push that a push service has passed on, with the opened message.
  init(to token: String, body: String) {
    (self.token, id, topic, key) = (token, "", nil, nil)
    (subject, signature) = (nil, nil)
    (label, sealed, keyID) = Self.message(body)
    isLegacy = sealed == nil
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
    topic = request.headers.first(name: "apns-topic")
    let shown = request.headers.first(name: "authorization")?.split(separator: " ").last
    key = provider == .apns ? shown.flatMap(Self.keyID) : shown.map(String.init)
    (subject, signature) = (Self.bytes("subject", in: body), Self.bytes("signature", in: body))
    gateway = GatewayPush(request, body, provider: provider)
    let message = Self.message(body)
    (label, sealed, keyID) = (gateway?.label ?? message.label, message.sealed, message.keyID)
    isLegacy = sealed == nil
  }

  private static func message(_ body: String) -> (label: String, sealed: String?, keyID: Int?) {
    (
      body.between(World.plaintext, "\"") ?? nextcloudLabel(body) ?? "",
      body.between(#""encrypted_data":""#, "\"")?.replacing(#"\/"#, with: "/"),
      body.between(#""push_key_id":"#, ",").flatMap { Int($0.filter(\.isNumber)) }
    )
  }

  private static func bytes(_ name: String, in body: String) -> [UInt8]? {
    body.between("\"\(name)\":\"", "\"").flatMap { Data(base64Encoded: $0.replacing(#"\/"#, with: "/")) }.map(
      Array.init)
  }

  /// The `kid` of a JSON Web Token.
  private static func keyID(of token: Substring) -> String? {
    token.split(separator: ".").first.flatMap { decoded(String($0)) }.flatMap {
      String(decoding: $0, as: UTF8.self).between(#""kid":""#, "\"")
    }
  }

  static func decoded(_ base64URL: String) -> Data? {
    let text = base64URL.replacing("-", with: "+").replacing("_", with: "/")
    return Data(base64Encoded: text + String(repeating: "=", count: (4 - text.count % 4) % 4))
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
