package import Foundation
package import NIOCore
package import NIOSSL

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

/// What carries requests to the providers: the internet, or, where the providers are played in this process, whoever
/// plays them.
package protocol ProviderNetwork: Sendable {
  /// How long an answer is waited for after whoever waited for it has gone on without.
  var answerTimeout: Duration { get }
  /// Where timers run.
  var eventLoop: any EventLoop { get }
  /// The connections of one sender to its provider.
  func transport(to peer: ProviderPeer) -> any Transport
  /// Asks Google for an access token; ends by itself, in seconds.
  func accessToken(
    for credential: FCMCredential, now: @escaping @Sendable () -> Date
  ) async -> Result<AccessToken, TokenFailure>
  /// Ends what it holds, after the transports have been shut down.
  func shutdown() async
}

/// Whom a transport leads to.
package struct ProviderPeer: Sendable {
  /// What a push service is told apart by, and what its connections share with those of others.
  struct WebPush {
    let addresses: WebPushAddresses
    let shares: WebPushShares
    let standing: WebPushShares.Standing
  }

  /// Whose it is.
  package let provider: Route.Provider
  /// Its host.
  package let host: String
  /// Its port.
  package let port: Int
  /// The simulator's FCM, spoken to without TLS.
  var isInClear = false
  var webPush: WebPush?

  init(_ provider: Route.Provider, host: String, port: Int) {
    (self.provider, self.host, self.port) = (provider, host, port)
  }

  /// As requests name it.
  var authority: String { FCMOrigin(scheme: "https", host: host, port: port).authority }
}

extension TLSConfiguration {
  /// Allows TLS 1.3, and of TLS 1.2 what keeps recorded traffic closed when the key becomes known later: an ephemeral
  /// exchange of keys, with ciphers that authenticate what they encrypt.
  package mutating func requireForwardSecrecy() {
    minimumTLSVersion = .tlsv12
    // Of TLS 1.3 there is nothing to choose.
    cipherSuites = "ECDHE+AESGCM:ECDHE+CHACHA20"
  }

  /// For calls to the outside, under the system's trust and, where it is given, a file's.
  package static func outgoing(caFile: String? = nil) -> Self {
    var tls = TLSConfiguration.makeClientConfiguration()
    tls.requireForwardSecrecy()
    // Nobody waits for the other side's farewell.
    tls.shutdownTimeout = .milliseconds(200)
    if let caFile { tls.additionalTrustRoots = [.file(caFile)] }
    return tls
  }
}
