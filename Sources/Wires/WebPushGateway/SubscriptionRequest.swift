import Crypto
import Foundation
import HTTP
import Providers
import Registrations
import Sealing

/// What an app sends to subscribe, or to renew its subscription: its token in clear, or sealed to the bouncer's key as
/// Zulip's apps do.
struct SubscriptionRequest: Sendable {
  let token: PushToken
  /// The app's bundle id; nil for FCM.
  let appID: String?
  /// The public key of the only sender that may send, 65 bytes; empty if anybody may; nil if neither is said.
  let senderKey: [UInt8]?
  /// Messages of this urgency or less show nothing on an iPhone.
  let silentUrgency: GatewayMessage.Urgency?
  /// When the app sealed it; nil if it was not sealed.
  let sealed: PushRegistration?
  /// Its members that are not known here.
  private(set) var additions = Additions()

  private static let senderKeyName = "application_server_key"
  private static let silentName = "silent_urgency"

  /// - Parameter open: opens what was sealed to a public key.
  init(
    _ body: some Sequence<UInt8>, open: (_ sealed: String, _ publicKey: String) async throws -> [UInt8]
  ) async throws {
    guard let json = try? JSON.parse(Array(body)), case .object = json else {
      throw APIError("The body is no JSON object.")
    }
    senderKey = try Self.senderKey(json)
    silentUrgency = try Self.silentUrgency(json)
    if let sealed = try Self.text("encrypted_push_registration", json) {
      guard let publicKey = try Self.text("bouncer_public_key", json) else {
        throw APIError("bouncer_public_key is missing.")
      }
      guard let registration = PushRegistration(try await open(sealed, publicKey)) else {
        throw APIError("encrypted_push_registration is malformed.")
      }
      guard registration.audience == PushRegistration.gateway else {
        throw APIError(
          "encrypted_push_registration was not sealed for this: it must have \"audience\": \"\(PushRegistration.gateway)\"."
        )
      }
      token = registration.token
      appID = registration.iosAppID
      self.sealed = registration
      additions.add(registration.additions)
      additions.addMembers(
        of: json,
        except: [
          "encrypted_push_registration", "bouncer_public_key", Name(Self.senderKeyName),
          Name(Self.silentName),
        ])
    } else {
      (token, appID) = try Self.clear(json)
      sealed = nil
      additions.addMembers(
        of: json,
        except: ["token", "token_kind", "ios_app_id", Name(Self.senderKeyName), Name(Self.silentName)])
    }
    // A Web Push subscription needs no gateway.
    guard token.host == nil, token.isPlausible else {
      throw APIError("token is malformed: it is no token of APNs or FCM.")
    }
  }

  private static func clear(_ json: JSON) throws(APIError) -> (PushToken, String?) {
    guard let kind = try text("token_kind", json).flatMap(PushToken.Kind.init) else {
      throw APIError("token_kind must be \"apns\" or \"fcm\".")
    }
    guard let text = try text("token", json) else { throw APIError("token is missing.") }
    let token: PushToken
    do {
      token = try PushToken(text, kind: kind)
    } catch {
      throw APIError("token is malformed: it is no token of APNs or FCM.")
    }
    let appID = try Self.text("ios_app_id", json)
    switch (kind, appID) {
    case (.apns, let appID?) where AppID.isValid(appID): return (token, appID)
    case (.apns, _): throw APIError("ios_app_id must be the app's bundle id.")
    case (.fcm, _): return (token, nil)
    }
  }

  private static func senderKey(_ json: JSON) throws(APIError) -> [UInt8]? {
    if json[senderKeyName] == .null { return [] }
    guard let text = try text(senderKeyName, json) else { return nil }
    guard let key = Base64URL.decode(text), key.count == 65,
      (try? P256.Signing.PublicKey(x963Representation: key)) != nil
    else {
      throw APIError("\(senderKeyName) is malformed: it is a VAPID key, the base64url of 65 bytes.")
    }
    return key
  }

  private static func silentUrgency(_ json: JSON) throws(APIError) -> GatewayMessage.Urgency? {
    guard let text = try text(silentName, json) else { return nil }
    guard let urgency = GatewayMessage.Urgency(rawValue: text), urgency < .high else {
      throw APIError("\(silentName) must be very-low, low or normal.")
    }
    return urgency
  }

  /// A string; nil if it is absent or null.
  private static func text(_ name: String, _ json: JSON) throws(APIError) -> String? {
    guard let value = json[name], value != .null else { return nil }
    guard let text = value.string else { throw APIError("\(name) must be a string.") }
    return text
  }
}
