import Foundation
import HTTPClient
import Logging
import NIOCore
import NIOPosix
import NIOSSL

/// The real network: TLS and HTTP/2, through a proxy if one is configured.
struct Internet: ProviderNetwork {
  private let group = MultiThreadedEventLoopGroup.singleton
  private let tls: NIOSSLContext
  /// TLS settings that also offer HTTP/1.1.
  let webTLS: NIOSSLContext
  private let proxy: Proxy?
  let pool: PoolLimits
  private let connection: HTTP2ConnectionHandler.Limits
  private let metrics: ProviderMetrics
  private let logger = Logger(label: "push-bouncer.providers")

  init(
    _ configuration: PushProviders.Configuration, pool: PoolLimits, connection: HTTP2ConnectionHandler.Limits,
    metrics: ProviderMetrics
  ) throws {
    self.pool = pool
    self.connection = connection
    self.metrics = metrics
    proxy = try configuration.proxy.map { url in
      guard let proxy = Proxy(url) else {
        throw PushProviders.ConfigurationError(
          key: "providers.proxy", advice: "must be of the form http://[user:password@]host:port")
      }
      return proxy
    }
    do {
      tls = try Connector.tls(caFile: configuration.caFile)
      webTLS = try Connector.tls(caFile: configuration.caFile, protocols: ["h2", "http/1.1"])
    } catch {
      throw PushProviders.ConfigurationError(
        key: "providers.ca_file", advice: "must name a readable file with certificates in PEM")
    }
  }

  var answerTimeout: Duration { .nanoseconds(pool.answerTimeout.nanoseconds) }
  var eventLoop: any EventLoop { group.any() }

  func transport(to peer: ProviderPeer) -> any Transport {
    var connector = connector(to: peer, tls: tls)
    var limits = pool
    if let host = peer.webPush {
      connector = self.connector(to: peer, tls: webTLS)
      connector.gate = host
      connector.limits.idle = { host.shares.idle }
      limits = .webPush
    } else if peer.mayLackHTTP2 {
      // Connections of HTTP/1.1 carry one request at a time.
      connector = self.connector(to: peer, tls: webTLS)
      limits.connections = 16
      // A chat server's call may be for both bouncers: it fails at once if upstream cannot be reached.
      limits.attempts = 1
    } else if peer.origin.scheme == "http" {
      // HTTP/1.1 connections carry one request at a time.
      limits.connections = 64
    }
    return http2Pool(connector, limits) { [metrics] in metrics.connectionsChanged(peer.provider, by: $0) }
  }

  func connector(to peer: ProviderPeer, tls: NIOSSLContext) -> Connector {
    Connector(
      host: peer.origin.host, port: peer.origin.port, tls: peer.origin.scheme == "http" ? nil : tls,
      allowsHTTP1: tls === webTLS, proxy: proxy, limits: connection
    ) { [metrics] in metrics.connected(peer.provider, by: $0) }
  }

  func http2Pool(
    _ connector: Connector, _ limits: PoolLimits, connectionsChanged: @escaping @Sendable (Int) -> Void
  ) -> HTTP2Pool {
    HTTP2Pool(
      connector: connector, group: group, limits: limits, logger: logger,
      connectionsChanged: connectionsChanged)
  }
}

extension PoolLimits {
  /// The limits of one push service. There may be thousands, which untrusted devices name.
  fileprivate static var webPush: PoolLimits {
    var limits = PoolLimits()
    limits.connections = 6
    limits.streams = 100
    limits.underWay = 600
    limits.waiting = 2000
    limits.answerTimeout = .seconds(10)
    // Callers learn at once that there is no connection, and the outbox tries again.
    limits.attempts = 1
    return limits
  }
}
