import Basics
import Crypto
import Foundation
import HTTPTypes
import NIOCore

@testable import HTTP
@testable import HTTPClient
@testable import Providers
@testable import Registrations
@testable import Sealing
@testable import WebPushGateway

/// Everything that apps and senders send to the Web Push gateway: endpoints, registrations, headers and bodies.
enum WebPushGatewayTarget: FuzzTarget {
  static let name = "webpush-gateway"

  static func run(_ bytes: [UInt8]) throws {
    let text = String(decoding: bytes, as: UTF8.self)
    try check(secrets.subscription(ofEndpoint: text) == nil, "nobody finds an endpoint")
    try check(!secrets.isSecret(text, of: id), "nobody finds a secret")
    if let read = GatewayID(text) { try check(read.text == text, "an id has one spelling") }
    if let read = GatewayName(text) { try check(read.text == text, "a name has one spelling") }
    try authorization(of: text)
    let lines = text.split(separator: "\n", maxSplits: 6, omittingEmptySubsequences: false).map(String.init)
    guard lines.count == 7 else { return }
    var headers: HTTPFields = [:]
    let names: [HTTPField.Name] = [.timeToLive, .urgency, .topic, .contentEncoding, .cryptoKey, .encryption]
    for (name, value) in zip(names, lines) where !value.isEmpty { headers[name] = value }
    guard let message = try? GatewayMessage(headers, ByteBuffer(string: lines[6])) else { return }
    try check((0...GatewayMessage.longestLife).contains(message.timeToLive), "a message ends")
    for kind in PushToken.Kind.allCases {
      for isKept in [false, true] {
        let push = message.push(
          to: subscription(kind), topic: message.topic.flatMap { secrets.name(ofTopic: $0, at: id) },
          isKept: isKept, at: APNsAnswerTarget.now)
        try check(push != nil && (push?.fits == true || !isKept), "what is kept here fits into a push")
      }
    }
  }

  private static func authorization(of text: String) throws {
    for field in [text, "vapid \(text)", "WebPush \(text)"] {
      guard let authorization = try? SenderAuthorization([.authorization: field, .cryptoKey: text]) else {
        continue
      }
      try check((try? authorization.verified()) == nil, "nobody signs without a key")
    }
  }

  private static let secrets = GatewaySecrets(storageKey: StorageKey(bytes: [UInt8](repeating: 7, count: 32)))
  private static let id = GatewayID()

  private static func subscription(_ kind: PushToken.Kind) -> GatewaySubscription {
    GatewaySubscription(
      reference: .init(.gateway, id: 1, registeredAt: APNsAnswerTarget.now), id: id, kind: kind,
      token: try? PushToken(String(repeating: "ab", count: 32), kind: kind), appID: "org.example.chat",
      senderKey: [], silentUrgency: kind == .apns ? .low : nil, environment: nil, owner: .nobody)
  }
}
