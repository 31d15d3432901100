import AsyncHTTPClient
import Foundation
import Logging
import NIOCore
import NIOPosix
import NIOSSL

/// The providers as they are reached from here: over TLS and HTTP/2, through a proxy if there is one.
struct Internet: ProviderNetwork {
  let answerTimeout: Duration
  /// For OAuth, and for an FCM in clear.
  private let client: HTTPClient
  private let group = MultiThreadedEventLoopGroup.singleton
  private let tls: NIOSSLContext
  private let webPushTLS: NIOSSLContext
  private let proxy: Proxy?
  private let pool: PoolLimits
  private let connection: HTTP2ConnectionHandler.Limits
  private let metrics: ProviderMetrics
  private let logger = Logger(label: "push-bouncer.providers")

  init(
    _ configuration: PushProviders.Configuration, pool: PoolLimits, connection: HTTP2ConnectionHandler.Limits,
    metrics: ProviderMetrics
  ) throws {
    answerTimeout = .nanoseconds(pool.answerTimeout.nanoseconds)
    (self.pool, self.connection, self.metrics) = (pool, connection, metrics)
    proxy = try configuration.proxy.map { url in
      guard let proxy = Proxy(url) else {
        throw PushProviders.ConfigurationError(
          key: "providers.proxy", advice: "must be of the form http://[user:password@]host:port")
      }
      return proxy
    }
    do {
      tls = try HTTP2Connector.tls(caFile: configuration.caFile)
      webPushTLS = try HTTP2Connector.tls(caFile: configuration.caFile, protocols: ["h2", "http/1.1"])
    } catch {
      throw PushProviders.ConfigurationError(
        key: "providers.ca_file", advice: "must name a readable file with certificates in PEM")
    }
    client = try Self.client(caFile: configuration.caFile, proxy: proxy)
  }

  private static func client(caFile: String?, proxy: Proxy?) throws -> HTTPClient {
    var configuration = HTTPClient.Configuration()
    configuration.redirectConfiguration = .disallow
    configuration.guardConnections()
    configuration.timeout.connect = .seconds(5)
    configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 64
    configuration.tlsConfiguration = .outgoing(caFile: caFile)
    if let proxy {
      let authorization = proxy.userInfo.map {
        HTTPClient.Authorization.basic(credentials: Data($0.utf8).base64EncodedString())
      }
      configuration.proxy = .server(host: proxy.host, port: proxy.port, authorization: authorization)
    }
    return HTTPClient(eventLoopGroup: MultiThreadedEventLoopGroup.singleton, configuration: configuration)
  }

  var eventLoop: any EventLoop { group.any() }

  func transport(to peer: ProviderPeer) -> any Transport {
    if peer.isInClear { return ClearTransport(client: client, limits: pool) }
    guard let webPush = peer.webPush else {
      let connector = HTTP2Connector(
        host: peer.host, port: peer.port, tls: tls, proxy: proxy, limits: connection)
      return http2(connector, pool, peer.provider)
    }
    var limits = connection
    limits.idle = { webPush.shares.idle }
    let connector = WebPushConnector(
      host: peer.host, port: peer.port, tls: webPushTLS, proxy: proxy, addresses: webPush.addresses,
      shares: webPush.shares, standing: webPush.standing, limits: limits)
    return http2(connector, .webPush, .webPush)
  }

  private func http2(
    _ connector: some Connector, _ limits: PoolLimits, _ provider: Route.Provider
  ) -> HTTP2Pool {
    HTTP2Pool(connector: connector, group: group, limits: limits, logger: logger) { [metrics] change in
      metrics.connectionsChanged(provider, by: change)
    }
  }

  func accessToken(
    for credential: FCMCredential, now: @escaping @Sendable () -> Date
  ) async -> Result<AccessToken, TokenFailure> {
    await GoogleOAuth(client: client, now: now).token(for: credential)
  }

  func shutdown() async { try? await client.shutdown() }
}

extension PoolLimits {
  /// Of one push service. There may be thousands, and each is asked by strangers.
  fileprivate static var webPush: PoolLimits {
    var limits = PoolLimits()
    limits.connections = 6
    limits.streams = 100
    limits.underWay = 600
    limits.waiting = 2000
    limits.answerTimeout = .seconds(10)
    // Whoever waits hears at once that there is no connection: the outbox tries again.
    limits.attempts = 1
    return limits
  }
}
