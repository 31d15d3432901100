package import Foundation
package import HTTPClient
package import NIOCore

/// Makes the senders, from the settings that all of them share.
struct SenderFactory: Sendable {
  let metrics: ProviderMetrics
  let network: any ProviderNetwork
  let now: @Sendable () -> Date
  private let apnsEndpoint: Origin?
  private let fcmEndpoint: Origin
  let webPush: PushProviders.Configuration.WebPush?
  private let webPushShares: WebPushShares
  let webPushAddresses: WebPushAddresses

  init(
    configuration: PushProviders.Configuration, metrics: ProviderMetrics, network: any ProviderNetwork,
    resolve: @escaping @Sendable (String) async throws -> [String], now: @escaping @Sendable () -> Date
  ) throws {
    self.metrics = metrics
    self.network = network
    self.now = now
    webPush = configuration.webPush
    webPushAddresses = WebPushAddresses(
      privateHosts: configuration.webPush?.privateHosts ?? [], resolve: resolve)
    let connections = configuration.webPush?.connections ?? 0
    webPushShares = WebPushShares(limits: .init(connections: connections, unproven: connections / 4))
    apnsEndpoint = try configuration.apnsEndpoint.map { url in
      guard let origin = Origin(url), origin.scheme == "https" else {
        throw PushProviders.ConfigurationError(
          key: "apns.endpoint", advice: "must be an https URL: APNs speaks HTTP/2")
      }
      return origin
    }
    let google = Origin(host: "fcm.googleapis.com")
    guard let origin = configuration.fcmEndpoint.map({ Origin($0) }) ?? google else {
      throw PushProviders.ConfigurationError(key: "fcm.endpoint", advice: "must be an http or https URL")
    }
    fcmEndpoint = origin
  }

  func apns(_ environment: APNsCredential.Environment, tokens: TokenSource) -> Sender {
    let origin =
      apnsEndpoint
      ?? Origin(host: environment == .production ? "api.push.apple.com" : "api.sandbox.push.apple.com")
    let transport = network.transport(to: ProviderPeer(provider: .apns, origin: origin))
    return Sender(
      provider: .apns, origin: origin, transport: transport, environment: environment,
      authority: .tokens(tokens), now: now)
  }

  /// The provider tokens of one APNs key.
  func apnsTokens(_ credential: APNsCredential) -> TokenSource {
    tokens(.apns, APNsProviderToken.limits) { [now] in
      APNsProviderToken.make(for: credential, now: now())
    }
  }

  func fcm(_ credential: FCMCredential) -> Sender {
    Sender(
      provider: .fcm, origin: fcmEndpoint,
      path: "\(fcmEndpoint.basePath)/v1/projects/\(credential.projectID)/messages:send",
      tokenHost: Origin(credential.tokenURI)?.authority ?? "",
      transport: network.transport(to: ProviderPeer(provider: .fcm, origin: fcmEndpoint)),
      authority: .tokens(
        tokens(.fcm, GoogleOAuth.limits) { [network, now] in
          await network.accessToken(for: credential, now: now)
        }),
      now: now)
  }

  func routeSender(
    for endpoint: WebPushEndpoint, _ webPush: PushProviders.Configuration.WebPush
  ) -> RouteSender {
    let origin = Origin(host: endpoint.host, port: endpoint.port)
    let host = WebPushHost(shares: webPushShares, addresses: webPushAddresses)
    let sender = Sender(
      provider: .webPush, origin: origin,
      transport: network.transport(to: ProviderPeer(provider: .webPush, origin: origin, webPush: host)),
      authority: .tokens(
        tokens(.webPush, VAPIDToken.limits) { [now] in
          VAPIDToken.make(for: endpoint.origin, by: webPush, now: now())
        }),
      neverResolves: webPushAddresses.neverResolves(endpoint.host), now: now)
    return RouteSender(
      Route(provider: .webPush, credential: endpoint.authority, target: ""), sender, metrics, host: host)
  }

  private func tokens(
    _ provider: Route.Provider, _ limits: TokenCache.Limits,
    make: @escaping @Sendable () async -> Result<AccessToken, TokenFailure>
  ) -> TokenSource {
    TokenSource(limits: limits, eventLoop: network.eventLoop, now: now) { [metrics] in
      metrics.minted(provider)
      return await make()
    }
  }
}

/// Connects to the providers: over the internet, or to simulated ones in this process.
package protocol ProviderNetwork: Sendable {
  /// How long an answer is still awaited after its caller has stopped waiting.
  var answerTimeout: Duration { get }
  /// The event loop for timers.
  var eventLoop: any EventLoop { get }
  /// The transport of one sender.
  func transport(to peer: ProviderPeer) -> any Transport
  /// Asks Google for an access token. Returns within seconds, without a deadline from outside.
  func accessToken(
    for credential: FCMCredential, now: @escaping @Sendable () -> Date
  ) async -> Result<AccessToken, TokenFailure>
}

/// The peer of a transport.
package struct ProviderPeer: Sendable {
  package let provider: Route.Provider
  let origin: Origin
  var webPush: WebPushHost?
  /// Whether it may speak HTTP/1.1 only.
  var mayLackHTTP2 = false
}
