import Foundation
import HTTPClient
import NIOHPACK
import Providers

/// A request on its way from a node to a provider or to the upstream bouncer.
struct Question: Sendable {
  /// A token, with the route that leads to it, as the log calls it.
  struct Recipient: Hashable, Sendable {
    let route: String
    let token: String
  }

  let provider: Route.Provider
  let recipient: Recipient
  /// The notification's label; empty if only its phone can read it, and for other calls.
  let label: String
  /// The kind of the registration, as the log calls it.
  let kind: String
  /// Whether it is a notification, and no other call of the upstream bouncer.
  let isPush: Bool
  let life: Life

  /// - Parameter pushService: what opens messages to phones with Web Push.
  init(
    _ request: ProviderRequest, to provider: Route.Provider, from life: Life, _ pushService: PushService
  ) {
    (self.provider, self.life) = (provider, life)
    isPush = provider != .upstream || request.headers.first(name: ":path")?.hasSuffix("/notify") == true
    guard provider != .upstream else {
      // To the upstream bouncer a chat server is what a token is.
      let caller = request.headers.first(name: "authorization") ?? ""
      recipient = Recipient(route: "upstream", token: caller)
      (label, kind) = ("", "")
      return
    }
    let push: ReceivedPush
    let route: String
    switch provider {
    case .webPush: (push, route) = (pushService.received(.init(request)), PushService.host)
    case .apns:
      push = ReceivedPush(request, provider: provider)
      let topic = push.topic ?? ""
      let credential = life.credentials.apns.first { $0.topics.contains(topic) }
      route = "apns:\(credential?.name ?? "main") \(topic)"
    case .fcm, .upstream: (push, route) = (ReceivedPush(request, provider: provider), "fcm:default p")
    }
    recipient = Recipient(route: route, token: push.token)
    label = push.label
    kind =
      push.gateway != nil
      ? "webpush_gateway" : push.subject != nil ? "nextcloud" : push.isLegacy ? "legacy" : "e2ee"
  }
}
