import AsyncHTTPClient
import Foundation
import Logging
import NIOCore
import NIOPosix
import NIOSSL

/// Makes what a credential needs to send: transports and token sources. Holds what all of them share.
struct TransportFactory: Sendable {
  let metrics = ProviderMetrics()
  /// For OAuth, and for an FCM in clear.
  let client: HTTPClient
  let now: @Sendable () -> Date
  private let group = MultiThreadedEventLoopGroup.singleton
  private let tls: NIOSSLContext
  private let proxy: Proxy?
  private let apnsEndpoint: (host: String, port: Int)?
  let fcmOrigin: FCMOrigin
  let pool: PoolLimits
  private let connection: HTTP2ConnectionHandler.Limits
  private let logger = Logger(label: "push-bouncer.providers")

  init(
    configuration: PushProviders.Configuration, pool: PoolLimits, connection: HTTP2ConnectionHandler.Limits,
    now: @escaping @Sendable () -> Date
  ) throws {
    self.pool = pool
    self.connection = connection
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
    proxy = try configuration.proxy.map { url in
      guard let proxy = Proxy(url) else {
        throw PushProviders.ConfigurationError(
          key: "providers.proxy", advice: "must be of the form http://[user:password@]host:port")
      }
      return proxy
    }
    do {
      tls = try HTTP2Connector.tls(caFile: configuration.caFile)
    } catch {
      throw PushProviders.ConfigurationError(
        key: "providers.ca_file", advice: "must name a readable file with certificates in PEM")
    }
    client = try Self.client(caFile: configuration.caFile, proxy: proxy)
  }

  private static func client(caFile: String?, proxy: Proxy?) throws -> HTTPClient {
    var configuration = HTTPClient.Configuration()
    configuration.redirectConfiguration = .disallow
    configuration.httpVersion = .http1Only
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

  /// The connections for one APNs key in one environment.
  func apnsTransport(_ environment: APNsCredential.Environment) -> (
    transport: any Transport, authority: String
  ) {
    let apple = environment == .production ? "api.push.apple.com" : "api.sandbox.push.apple.com"
    let connector = connector(host: apnsEndpoint?.host ?? apple, port: apnsEndpoint?.port ?? 443)
    return (http2(connector, .apns), connector.authority)
  }

  /// The connections for one service account.
  func fcmTransport() -> any Transport {
    guard fcmOrigin.scheme == "https" else { return ClearTransport(client: client, limits: pool) }
    return http2(connector(host: fcmOrigin.host, port: fcmOrigin.port), .fcm)
  }

  /// The provider tokens of one APNs key.
  func apnsTokens(_ credential: APNsCredential) -> TokenSource {
    TokenSource(limits: APNsProviderToken.limits, eventLoop: group.any(), now: now) { [metrics, now] in
      metrics.minted(.apns)
      return await APNsProviderToken.make(for: credential, now: now())
    }
  }

  /// The access tokens of one service account.
  func fcmTokens(_ credential: FCMCredential) -> TokenSource {
    TokenSource(limits: GoogleOAuth.limits, eventLoop: group.any(), now: now) { [metrics, client, now] in
      metrics.minted(.fcm)
      return await GoogleOAuth(client: client, now: now).token(for: credential)
    }
  }

  private func connector(host: String, port: Int) -> HTTP2Connector {
    HTTP2Connector(host: host, port: port, tls: tls, proxy: proxy, limits: connection)
  }

  private func http2(_ connector: HTTP2Connector, _ provider: Route.Provider) -> HTTP2Pool {
    HTTP2Pool(connector: connector, group: group, limits: pool, logger: logger) { [metrics] change in
      metrics.connectionsChanged(provider, by: change)
    }
  }
}
