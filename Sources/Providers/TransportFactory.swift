import Foundation

/// Makes what a credential needs to send: transports and token sources. Holds what all of them share.
struct TransportFactory: Sendable {
  let metrics: ProviderMetrics
  let network: any ProviderNetwork
  let now: @Sendable () -> Date
  private let apnsEndpoint: (host: String, port: Int)?
  let fcmOrigin: FCMOrigin
  let webPush: PushProviders.Configuration.WebPush?
  private let webPushShares: WebPushShares
  let webPushAddresses: WebPushAddresses

  /// - Parameter network: what carries requests, given what is counted.
  init(
    configuration: PushProviders.Configuration,
    resolve: @escaping @Sendable (String) async throws -> [String], now: @escaping @Sendable () -> Date,
    network: (ProviderMetrics) throws -> any ProviderNetwork
  ) throws {
    metrics = ProviderMetrics()
    webPushAddresses = WebPushAddresses(
      privateHosts: configuration.webPush?.privateHosts ?? [], resolve: resolve)
    let connections = configuration.webPush?.connections ?? 0
    webPushShares = WebPushShares(limits: .init(connections: connections, unproven: connections / 4))
    webPush = configuration.webPush
    self.now = now
    apnsEndpoint = try configuration.apnsEndpoint.map { url in
      guard url.scheme == "https", let host = url.host(percentEncoded: false), !host.isEmpty else {
        throw PushProviders.ConfigurationError(
          key: "apns.endpoint", advice: "must be an https URL: APNs speaks HTTP/2")
      }
      return (host, url.port ?? 443)
    }
    let google = FCMOrigin(scheme: "https", host: "fcm.googleapis.com", port: 443)
    guard let origin = configuration.fcmEndpoint.map({ FCMOrigin($0) }) ?? google else {
      throw PushProviders.ConfigurationError(key: "fcm.endpoint", advice: "must be an http or https URL")
    }
    fcmOrigin = origin
    self.network = try network(metrics)
  }

  /// The connections for one APNs key in one environment.
  func apnsTransport(_ environment: APNsCredential.Environment) -> (
    transport: any Transport, authority: String
  ) {
    let apple = environment == .production ? "api.push.apple.com" : "api.sandbox.push.apple.com"
    let peer = ProviderPeer(.apns, host: apnsEndpoint?.host ?? apple, port: apnsEndpoint?.port ?? 443)
    return (network.transport(to: peer), peer.authority)
  }

  /// The connections for one service account.
  func fcmTransport() -> any Transport {
    var peer = ProviderPeer(.fcm, host: fcmOrigin.host, port: fcmOrigin.port)
    peer.isInClear = fcmOrigin.scheme == "http"
    return network.transport(to: peer)
  }

  /// The provider tokens of one APNs key.
  func apnsTokens(_ credential: APNsCredential) -> TokenSource {
    TokenSource(limits: APNsProviderToken.limits, eventLoop: network.eventLoop, now: now) { [metrics, now] in
      metrics.minted(.apns)
      return await APNsProviderToken.make(for: credential, now: now())
    }
  }

  /// The access tokens of one service account.
  func fcmTokens(_ credential: FCMCredential) -> TokenSource {
    TokenSource(limits: GoogleOAuth.limits, eventLoop: network.eventLoop, now: now) {
      [metrics, network, now] in
      metrics.minted(.fcm)
      return await network.accessToken(for: credential, now: now)
    }
  }

  /// The connections to a push service, and what sends over them.
  func webPush(
    _ endpoint: WebPushEndpoint, _ webPush: PushProviders.Configuration.WebPush
  ) -> (RouteSender, any Transport) {
    let host = WebPushHost(shares: webPushShares)
    var peer = ProviderPeer(.webPush, host: endpoint.host, port: endpoint.port)
    peer.webPush = .init(addresses: webPushAddresses, shares: webPushShares, standing: host.standing)
    let transport = network.transport(to: peer)
    let tokens = TokenSource(limits: VAPIDToken.limits, eventLoop: network.eventLoop, now: now) {
      [metrics, now] in
      metrics.minted(.webPush)
      return VAPIDToken.make(for: endpoint.origin, by: webPush, now: now())
    }
    let sender = WebPushSender(
      authority: endpoint.authority, authorized: AuthorizedTransport(transport: transport, tokens: tokens),
      now: now)
    let route = Route(provider: .webPush, credential: endpoint.authority, target: "")
    return (RouteSender(route, .webPush(sender), self, host: host), transport)
  }
}
