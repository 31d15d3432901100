import NIOCore
import NIOPosix
import NIOSSL

/// Opens connections to one origin: TCP, the proxy's CONNECT where there is one, TLS, HTTP/2.
///
/// The name is resolved each time, so that a provider may move.
struct HTTP2Connector: Connector {
  let host: String
  let port: Int
  let tls: NIOSSLContext
  var proxy: Proxy?
  var limits = HTTP2ConnectionHandler.Limits()

  /// `:authority` of the requests.
  var authority: String {
    let name = host.contains(":") ? "[\(host)]" : host
    return port == 443 ? name : "\(name):\(port)"
  }

  /// The TLS settings of all connections: the system's trust roots and those in the file, HTTP/2 only unless told
  /// otherwise.
  static func tls(caFile: String?, protocols: [String] = ["h2"]) throws -> NIOSSLContext {
    var configuration = TLSConfiguration.outgoing(caFile: caFile)
    configuration.applicationProtocols = protocols
    return try NIOSSLContext(configuration: configuration)
  }

  func connect(_ id: ConnectionID, owner: any HTTP2ConnectionOwner, on eventLoop: any EventLoop) {
    ClientBootstrap(group: eventLoop)
      .connectTimeout(.seconds(5))
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          guard let proxy else { return try addHTTP2(id, owner, to: channel) }
          let handler = ProxyConnectHandler(proxy: proxy, host: host, port: port) { result in
            do {
              try result.get()
              try addHTTP2(id, owner, to: channel)
            } catch {
              owner.closed(id, wasUp: false, failure: .proxyRefused)
              channel.close(promise: nil)
            }
          }
          try channel.pipeline.syncOperations.addHandler(handler)
        }
      }
      .connect(host: proxy?.host ?? host, port: proxy?.port ?? port)
      .whenFailure { _ in owner.closed(id, wasUp: false, failure: .connectFailed) }
  }

  private func addHTTP2(_ id: ConnectionID, _ owner: any HTTP2ConnectionOwner, to channel: any Channel) throws
  {
    try channel.pipeline.syncOperations.addHandlers([
      NIOSSLClientHandler.proving(host, context: tls),
      HTTP2ConnectionHandler(id: id, owner: owner, limits: limits),
    ])
  }
}
