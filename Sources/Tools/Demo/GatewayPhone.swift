package import AsyncHTTPClient
import Foundation
package import HTTP
import NIOCore
import NIOHTTP1
import Providers
import Sealing

/// A phone whose app gets its messages by way of the Web Push gateway: from any sender, and readable by nobody else.
package struct GatewayPhone {
  /// The app's token at its provider.
  package let token: String
  /// What senders need: the endpoint and the phone's public keys, in the form of browsers and of Web Push libraries.
  package var subscription: JSON {
    [
      "endpoint": .string(keys.endpoint),
      "keys": ["p256dh": .string(keys.p256dh), "auth": .string(keys.auth)],
    ]
  }
  private let id: String
  private let service: JSONService
  private let keys: PushSubscription

  /// Subscribes a phone.
  ///
  /// - Parameters:
  ///   - appID: the bundle id of an iPhone's app; nil for Android.
  ///   - sender: the VAPID key of the only sender that may send, in base64url; nil: anybody may.
  package init(at bouncer: String, appID: String?, sender: String? = nil, client: HTTPClient) async throws {
    let phone = VirtualPhone(appID == nil ? .fcm : .apns, appID: appID)
    token = phone.token
    var registration: JSON.Object = [
      "token": .string(token), "token_kind": .string(phone.kind.rawValue),
    ]
    registration["ios_app_id"] = appID.map(JSON.string)
    registration["application_server_key"] = sender.map(JSON.string)
    let service = JSONService(url: "\(bouncer)/webpush/v1", client: client)
    let answer = try await service.call(.POST, "subscriptions", .json(.object(registration)))
    guard let id = answer["id"]?.string, let endpoint = answer["endpoint"]?.string,
      let secret = answer["secret"]?.string
    else { throw DemoError("the gateway gave no endpoint") }
    self.id = id
    self.service = JSONService(url: service.url, credentials: .bearer(secret), client: client)
    keys = PushSubscription(endpoint: endpoint)
  }

  /// Decrypts a delivery of the simulator; nil if it is not for this phone. Fetches what did not fit into the push.
  package func open(_ delivery: JSON) async throws -> Result<String, Unreadable>? {
    let payload = delivery["payload"]
    let members = payload?["message"]?["data"] ?? payload
    guard delivery["token"]?.string == token, members?["subscription"]?.string == id else { return nil }
    let body: [UInt8]
    if let message = members?["message"]?.string {
      body = try await service.bytes(of: "messages/\(message)")
    } else {
      guard let inline = members?["body"]?.string.flatMap({ Base64URL.decode($0) }) else {
        return .failure(.notEncrypted)
      }
      body = inline
    }
    guard let plaintext = keys.open(body) else { return .failure(.wrongKey) }
    return String(validating: plaintext, as: UTF8.self).map(Result.success) ?? .failure(.malformed)
  }

  /// Ends the subscription.
  package func end() async throws { try await service.call(.DELETE, "subscriptions/\(id)") }

  /// Sends itself a message, as any sender would.
  func send(_ text: String) async throws -> HTTPResponseStatus {
    // Only the keys count here.
    let target = try WebPushSubscription(
      endpoint: "https://push.example.org/", p256dh: keys.p256dh, auth: keys.auth)
    return try await JSONService(
      url: keys.endpoint, headers: [("TTL", "60"), ("Content-Encoding", "aes128gcm")], client: service.client
    ).post(WebPushEncryption.encrypt(.init(string: text), for: target))
  }
}
