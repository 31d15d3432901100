public import Foundation

/// A notification that a simulated provider accepted.
public struct Delivery: Sendable, Hashable {
  /// Who accepted it.
  public enum Provider: String, Sendable, Hashable, Encodable {
    case apns, fcm
  }

  /// 1 for the first accepted after the start or a reset, then counting up.
  public let sequence: Int
  /// Who accepted it.
  public let provider: Provider
  /// The device token.
  public let token: String
  /// APNs: the `apns-topic`.
  public let topic: String?
  /// FCM: the project.
  public let project: String?
  /// The request's headers, names in lower case, without pseudo-headers and `authorization`.
  public let headers: [String: String]
  /// The whole JSON body, byte for byte.
  public let payload: Data
  /// When it was accepted.
  public let receivedAt: Date
  /// APNs: the `apns-id`; FCM: `projects/P/messages/N`.
  public let id: String
}

extension Delivery {
  private struct Envelope: Encodable {
    var sequence: Int
    var provider: Provider
    var token: String
    var topic: String?
    var project: String?
    var headers: [String: String]
    var received_at: String
    var id: String
  }

  /// As `/_control/deliveries` shows it. The payload goes in as it came: decoding and encoding it
  /// again could change it.
  func json(_ encoder: JSONEncoder) throws -> Data {
    let time = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
    var json = try encoder.encode(
      Envelope(
        sequence: sequence, provider: provider, token: token, topic: topic, project: project, headers: headers,
        received_at: receivedAt.formatted(time), id: id))
    json.removeLast()
    json += Data(#","payload":"#.utf8) + payload + Data("}".utf8)
    return json
  }
}

/// What a simulator has seen since its start or a reset.
public struct SimulatorCounts: Sendable, Hashable, Codable {
  /// Notifications that APNs accepted.
  public var apns = 0
  /// Messages that FCM accepted, without those that were only to be validated.
  public var fcm = 0
  /// Notifications and messages answered with an error, by rule or by fault.
  public var refused = 0
  /// Connections accepted, on both ports.
  public var connections = 0
  /// Provider tokens seen and found good.
  public var providerTokens = 0
  /// Access tokens given out.
  public var accessTokens = 0

  /// Nothing seen.
  public init() {}

  enum CodingKeys: String, CodingKey {
    case apns, fcm, refused, connections
    case providerTokens = "provider_tokens"
    case accessTokens = "access_tokens"
  }
}
