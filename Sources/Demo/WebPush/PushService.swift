package import AsyncHTTPClient
package import HTTP
import NIOCore
import NIOHTTP1
import Sealing

/// The simulator's push service, as phones meet it in the place of a distributor of UnifiedPush or a browser's maker.
package struct PushService: Sendable {
  private let service: JSONService
  /// Its address.
  var url: String { service.url }

  package init(url: String, client: HTTPClient) {
    service = JSONService(url: url, credentials: .none, client: client)
  }

  /// Subscribes for messages from a bouncer, and for nobody else's.
  ///
  /// - Parameter bouncer: its address.
  package func subscribe(for bouncer: String) async throws -> PushSubscription {
    let services = JSONService(
      url: "\(bouncer)/api/v1/zulip-services", credentials: .none, client: service.client)
    guard let key = try await services.call(.GET, "webpush/vapid")["vapid"]?.string else {
      throw DemoError("\(bouncer) tells no VAPID key")
    }
    return try await subscribe(key: key)
  }

  /// Subscribes for messages that are signed with a key: the public one, in base64url.
  package func subscribe(key: String) async throws -> PushSubscription {
    let answer = try await service.call(.POST, "subscriptions", .json(["vapid": .string(key)]))
    guard let endpoint = answer["endpoint"]?.string else {
      throw DemoError("the push service gave no endpoint")
    }
    return PushSubscription(endpoint: endpoint)
  }

  /// Ends a subscription: whoever sends to it hears so.
  package func end(_ subscription: PushSubscription) async throws {
    _ = try await service.call(.DELETE, "subscriptions/\(subscription.id)")
  }

  /// What has arrived since, still sealed; nothing where the subscription has ended.
  ///
  /// - Parameter wait: for so many seconds if nothing has.
  package func messages(for subscription: PushSubscription, after seen: inout Int64, wait: Int = 5)
    async throws -> [JSON]
  {
    do {
      let answer = try await service.call(
        .GET, "subscriptions/\(subscription.id)/messages?since=\(seen)&wait=\(wait)", timeout: .seconds(30))
      seen = answer["next"]?.integer ?? seen
      guard case .array(let messages)? = answer["messages"] else { return [] }
      return messages
    } catch let refusal as JSONService.Refusal where refusal.status == .gone { return [] }
  }
}
