package import Foundation
package import HTTPClient
package import NIOCore

/// What the senders of all providers are made from.
struct SenderFactory: Sendable {
  let metrics: ProviderMetrics
  let network: any ProviderNetwork
  let now: @Sendable () -> Date
  private let endpoints: [Route.Provider: URL]

  init(
    configuration: PushProviders.Configuration, metrics: ProviderMetrics, network: any ProviderNetwork,
    now: @escaping @Sendable () -> Date
  ) throws {
    self.metrics = metrics
    self.network = network
    self.now = now
    endpoints = configuration.endpoints
    for (provider, endpoint) in endpoints {
      let form = provider.definition.endpointForm
      guard let origin = Origin(endpoint), form.schemes.contains(origin.scheme) else {
        throw PushProviders.ConfigurationError(key: "\(provider.rawValue).endpoint", advice: form.advice)
      }
    }
  }

  /// Where the provider is, if not where it usually is.
  func endpoint(of provider: Route.Provider) -> Origin? { endpoints[provider].flatMap { Origin($0) } }

  func tokens(
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
