package import AsyncHTTPClient
import Foundation
package import HTTP
import NIOCore
import NIOHTTP1
import Providers
import PushBouncerClient
import Sealing

/// A phone whose app gets its messages by way of the Web Push gateway: from any sender, and readable by nobody else. Its app is
/// the one of `Examples/iOS`.
package struct GatewayPhone {
  /// The app's token at its provider.
  package let token: String
  /// What senders need: the endpoint and the phone's public keys, in the form of browsers and of Web Push libraries.
  package var subscription: JSON {
    [
      "endpoint": .string(known.endpoint),
      "keys": ["p256dh": .string(keys.p256dh), "auth": .string(keys.auth)],
    ]
  }
  private let gateway: Gateway
  private let known: Subscription
  private let keys = WebPushKeys()
  private let client: HTTPClient

  /// Subscribes a phone.
  ///
  /// - Parameters:
  ///   - appID: the bundle id of an iPhone's app; nil for Android.
  ///   - sender: the VAPID key of the only sender that may send, in base64url; nil: anybody may.
  package init(at bouncer: String, appID: String?, sender: String? = nil, client: HTTPClient) async throws {
    let phone = VirtualPhone(appID == nil ? .fcm : .apns, appID: appID)
    (token, self.client) = (phone.token, client)
    let gateway = Gateway(bouncer) { try await JSONService(url: bouncer, client: client).send($0) }
    let registration =
      appID.map { Registration.apns(token: phone.token, appID: $0) } ?? .fcm(token: phone.token)
    known = try await Self.readably { try await gateway.enrol(nil, as: registration, sender: sender) }
    self.gateway = gateway
  }

  /// Decrypts a delivery of the simulator; nil if it is not for this phone. Fetches what did not fit into the push.
  package func open(_ delivery: JSON) async throws -> Result<String, Unreadable>? {
    let payload = delivery["payload"]
    guard delivery["token"]?.string == token,
      case .object(let data) = payload?["message"]?["data"] ?? payload,
      data["subscription"]?.string == known.id
    else { return nil }
    let members = Dictionary(data.members.map { ($0.name.text, $0.value.string) }) { $1 }
    let text: Data?
    do {
      text = try await gateway.open(ReceivedPush(members.compactMapValues(\.self)), of: known, with: keys)
    } catch PushError.malformed {
      return .failure(.notEncrypted)
    } catch PushError.unreadable {
      return .failure(.wrongKey)
    } catch let error as PushError {
      throw DemoError("\(error)")
    }
    guard let text else { return .failure(.notEncrypted) }
    return String(validating: text, as: UTF8.self).map(Result.success) ?? .failure(.malformed)
  }

  /// Ends the subscription.
  package func end() async throws { try await Self.readably { try await gateway.unsubscribe(known) } }

  /// Sends itself a message, as any sender would.
  func send(_ text: String) async throws -> HTTPResponseStatus {
    // Only the keys count here.
    let target = try WebPushSubscription(
      endpoint: "https://push.example.org/", p256dh: keys.p256dh, auth: keys.auth)
    return try await JSONService(
      url: known.endpoint, headers: [("TTL", "60"), ("Content-Encoding", "aes128gcm")], client: client
    ).post(WebPushEncryption.encrypt(.init(string: text), for: target))
  }

  /// The app's errors in this program's words.
  private static func readably<Value>(_ call: () async throws -> Value) async throws -> Value {
    do { return try await call() } catch let error as PushError { throw DemoError("\(error)") }
  }
}
