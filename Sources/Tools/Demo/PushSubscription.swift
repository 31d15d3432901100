package import AsyncHTTPClient
import Foundation
import HTTP
import NIOCore
import NIOHTTP1
import Providers
import PushBouncerClient
import Sealing

/// A Web Push subscription as its phone stores it: the endpoint, and the keys that decrypt messages.
package struct PushSubscription: Sendable {
  let endpoint: String
  private let keys = WebPushKeys()

  /// The endpoint's last part.
  var id: Substring { endpoint.split(separator: "/").last ?? "" }

  /// The public key, in base64url.
  var p256dh: String { keys.p256dh }

  /// The secret, in base64url.
  var auth: String { keys.auth }

  /// The subscription as a token for the bouncer (`Documentation/Apps.md`).
  var token: String {
    let fields: JSON = ["endpoint": .string(endpoint), "p256dh": .string(p256dh), "auth": .string(auth)]
    return "webpush:" + Base64URL.encode(fields.bytes)
  }

  /// Opens a message as the push service shows it, whose plaintext is JSON.
  func open(_ message: JSON) throws(Unreadable) -> JSON {
    guard let body = message["payload"]?.string.flatMap(Base64.decodeStrictly) else { throw .notEncrypted }
    guard let plaintext = open(body) else { throw .wrongKey }
    guard let notification = try? JSON.parse(plaintext) else { throw .malformed }
    return notification
  }

  /// Opens a message; nil if it is not for this subscription.
  func open(_ body: some Collection<UInt8>) -> [UInt8]? {
    (try? keys.open(EncryptedMessage(Data(body), encoding: "aes128gcm"))).map { Array($0) }
  }
}

/// The simulator's push service as phones use it. It stands for a UnifiedPush distributor or a browser
/// vendor's service.
package struct PushService: Sendable {
  private let service: JSONService
  private let path: String?
  var url: String { service.url }

  /// - Parameter path: where its endpoints are: `/push`, or as at Google `/fcm/send` or `/wp`; nil: as it likes.
  package init(url: String, path: String? = nil, client: HTTPClient) {
    service = JSONService(url: url, client: client)
    self.path = path
  }

  /// Subscribes for messages that are signed with a bouncer's VAPID key.
  ///
  /// - Parameter bouncer: its address.
  package func subscribe(for bouncer: String) async throws -> PushSubscription {
    let services = JSONService(url: "\(bouncer)/api/v1/zulip-services", client: service.client)
    guard let key = try await services.call(.GET, "webpush/vapid")["vapid"]?.string else {
      throw DemoError("\(bouncer) tells no VAPID key")
    }
    return try await subscribe(key: key)
  }

  /// Subscribes for messages that are signed with a key, given as the public key in base64url.
  func subscribe(key: String) async throws -> PushSubscription {
    var request: JSON.Object = ["vapid": .string(key)]
    request["path"] = path.map(JSON.string)
    let answer = try await service.call(.POST, "subscriptions", .json(.object(request)))
    guard let endpoint = answer["endpoint"]?.string else {
      throw DemoError("the push service gave no endpoint")
    }
    return PushSubscription(endpoint: endpoint)
  }

  /// Ends a subscription. Later messages to it are refused.
  func delete(_ subscription: PushSubscription) async throws {
    try await service.call(.DELETE, "subscriptions/\(subscription.id)")
  }

  /// The messages after `seen`, still encrypted; none if the subscription has ended.
  ///
  /// - Parameter wait: how long to wait for the first, in seconds.
  func messages(for subscription: PushSubscription, after seen: inout Int64, wait: Int = 5)
    async throws -> [JSON]
  {
    do {
      let answer = try await service.call(
        .GET, "subscriptions/\(subscription.id)/messages?since=\(seen)&wait=\(wait)", timeout: .seconds(30))
      seen = answer["next"]?.integer ?? seen
      return answer["messages"]?.elements ?? []
    } catch let refusal as JSONService.Refusal where refusal.status == .gone { return [] }
  }
}
