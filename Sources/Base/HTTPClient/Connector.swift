package import Basics
import Foundation
package import NIOCore
import NIOExtras
import NIOHTTP1
import NIOPosix
package import NIOSSL
import NIOTLS
import Synchronization

/// Limits the connections to a host whose name comes from outside.
package protocol ConnectionGate: Sendable {
  /// Whether a connection may be available. Its address is not known yet, so the answer may still be no.
  var hasRoom: Bool { get }

  /// The addresses to connect to.
  ///
  /// - Throws: ``OutgoingClient/HostError``, or ``LookupsExhausted``.
  func addresses(of host: String) async throws -> [String]

  /// Takes a connection; nil if none is available.
  ///
  /// - Parameter network: the ``IPAddress/network`` of its address.
  /// - Returns: a function that gives the connection back, to be called once.
  func takeConnection(to network: IPAddress?) -> (@Sendable () -> Void)?
}

/// Opens connections to one origin: TCP, then CONNECT through a proxy if there is one, TLS, and HTTP.
///
/// Resolves the name for each connection, because providers change addresses. Behind a ``ConnectionGate`` the
/// connection, also through a proxy, goes to an address that was checked.
package struct Connector: Sendable {
  package let host: String
  package let port: Int
  /// Nil for unencrypted HTTP/1.1.
  package let tls: NIOSSLContext?
  /// Whether HTTP/1.1 is accepted if the peer does not support HTTP/2.
  package var allowsHTTP1 = false
  package var proxy: Proxy?
  package var limits = HTTP2ConnectionHandler.Limits()
  /// Set for a host whose name comes from outside: limits its addresses and connections.
  package var gate: (any ConnectionGate)?
  /// Called with the key exchange of each connection.
  package var keyExchanged: @Sendable (KeyExchange) -> Void = { _ in }

  package init(
    host: String, port: Int, tls: NIOSSLContext? = nil, allowsHTTP1: Bool = false, proxy: Proxy? = nil,
    limits: HTTP2ConnectionHandler.Limits = HTTP2ConnectionHandler.Limits(),
    gate: (any ConnectionGate)? = nil, keyExchanged: @escaping @Sendable (KeyExchange) -> Void = { _ in }
  ) {
    self.host = host
    self.port = port
    self.tls = tls
    self.allowsHTTP1 = allowsHTTP1
    self.proxy = proxy
    self.limits = limits
    self.gate = gate
    self.keyExchanged = keyExchanged
  }

  /// The TLS settings of all connections. Trusts the system's roots and those in the file.
  package static func tls(caFile: String?, protocols: [String] = ["h2"]) throws -> NIOSSLContext {
    var configuration = TLSConfiguration.outgoing(caFile: caFile)
    configuration.applicationProtocols = protocols
    return try NIOSSLContext(configuration: configuration)
  }

  /// Opens a connection and reports the result to the owner alone.
  package func connect(_ id: ConnectionID, owner: any HTTP2ConnectionOwner, on eventLoop: any EventLoop) {
    owner.waits(id, orElse: proxy == nil ? .connectTimeout : .proxyConnectTimeout)
    guard let gate else {
      open(id, owner, at: host, on: eventLoop).flatMapThrowing { try addHandlers(id, owner, to: $0) }
        .whenFailure {
          owner.closed(id, wasUp: false, failure: .unconnected(ConnectionFailure($0) ?? .connectFailed))
        }
      return
    }
    guard gate.hasRoom else { return owner.closed(id, wasUp: false, failure: .overloaded) }
    Task {
      var failure = TransportFailure.unconnected(.connectFailed)
      do {
        // The name is looked up before a connection is taken from the shares, so that slow name servers do
        // not use up connections.
        let addresses = try await gate.addresses(of: host)
        let (_, channel) = try await AddressRace<any Channel>.run(addresses) { address in
          guard let release = gate.takeConnection(to: IPAddress(address)?.network) else {
            throw Overloaded()
          }
          do {
            let channel = try await open(id, owner, at: address, on: eventLoop).get()
            channel.closeFuture.whenComplete { _ in release() }
            return channel
          } catch {
            release()
            throw error
          }
        } close: { channel in
          channel.close(promise: nil)
        }
        do {
          return try await eventLoop.submit { try addHandlers(id, owner, to: channel) }.get()
        } catch {
          channel.close(promise: nil)
          throw error
        }
      } catch OutgoingClient.HostError.forbiddenAddress {
        failure = .forbiddenAddress
      } catch is LookupsExhausted, is Overloaded {
        failure = .overloaded
      } catch {
        failure = .unconnected(ConnectionFailure(error) ?? .connectFailed)
      }
      owner.closed(id, wasUp: false, failure: failure)
    }
  }

  private struct Overloaded: Error {}

  /// Opens a channel to the address, or has the proxy do so. Fails with a ``ConnectionFailure``.
  private func open(
    _ id: ConnectionID, _ owner: any HTTP2ConnectionOwner, at address: String, on eventLoop: any EventLoop
  ) -> EventLoopFuture<any Channel> {
    ClientBootstrap(group: eventLoop)
      .connectTimeout(.seconds(5))
      .connect(host: proxy?.host ?? address, port: proxy?.port ?? port)
      .flatMapErrorThrowing { error in
        let failure = ConnectionFailure(error) ?? .connectFailed
        throw proxy == nil ? failure : failure.ofProxy
      }
      .flatMap { channel in
        if proxy != nil { owner.waits(id, orElse: .proxyTimeout) }
        return tunnel(channel, to: address).map { channel }
      }
  }

  /// Has the proxy, if there is one, connect the channel to the address.
  private func tunnel(_ channel: any Channel, to address: String) -> EventLoopFuture<Void> {
    guard let proxy else { return channel.eventLoop.makeSucceededVoidFuture() }
    let host = address.contains(":") ? "[\(address)]" : address
    var headers: HTTPHeaders = ["Host": "\(host):\(port)"]
    if let userInfo = proxy.userInfo {
      headers.add(
        name: "Proxy-Authorization", value: "Basic \(Data(userInfo.utf8).base64EncodedString())")
    }
    let pipeline = channel.pipeline.syncOperations
    let opened = channel.eventLoop.makePromise(of: Void.self)
    let encoder = HTTPRequestEncoder()
    let decoder = ByteToMessageHandler(HTTPResponseDecoder())
    let answer = ProxyAnswerHandler()
    let handler = NIOHTTP1ProxyConnectHandler(
      targetHost: host, targetPort: port, headers: headers, deadline: .now() + .seconds(10), promise: opened)
    do {
      try pipeline.addHandlers([encoder, decoder, answer, handler])
    } catch {
      opened.fail(error)
    }
    return opened.futureResult.assumeIsolated().flatMapErrorThrowing { error in
      if let status = answer.status { throw ConnectionFailure(proxyStatus: status) }
      let isLate = error as? NIOHTTP1ProxyConnectHandler.Error == .httpProxyHandshakeTimeout()
      throw isLate ? ConnectionFailure.proxyTimeout : .proxyRefused
    }.flatMap {
      pipeline.removeHandler(decoder).and(pipeline.removeHandler(encoder)).and(
        pipeline.removeHandler(answer)
      ).map { _ in }
    }.nonisolated()
  }

  private func addHandlers(_ id: ConnectionID, _ owner: any HTTP2ConnectionOwner, to channel: any Channel)
    throws
  {
    owner.waits(id, orElse: .handshakeTimeout)
    let pipeline = channel.pipeline.syncOperations
    guard let tls else { return try pipeline.addHandlers(HTTP1ConnectionHandler.handlers(id, owner, limits)) }
    try pipeline.addHandlers([
      KeyExchangeObserver(.client, onKeyExchange: keyExchanged),
      NIOSSLClientHandler.proving(host, context: tls),
      NegotiationHandler(id: id, owner: owner, limits: limits, allowsHTTP1: allowsHTTP1),
    ])
  }
}

/// Keeps the status of a proxy's answer, which the error for it does not give.
private final class ProxyAnswerHandler: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPClientResponsePart

  private(set) var status: Int?

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    if case .head(let head) = unwrapInboundIn(data) { status = Int(head.status.code) }
    context.fireChannelRead(data)
  }
}

/// Waits for the protocol that TLS negotiates (ALPN, RFC 7301), then replaces itself by the handler of that
/// protocol.
private final class NegotiationHandler: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer

  private let id: ConnectionID
  private let owner: any HTTP2ConnectionOwner
  private let limits: HTTP2ConnectionHandler.Limits
  private let allowsHTTP1: Bool
  private var isDone = false

  init(
    id: ConnectionID, owner: any HTTP2ConnectionOwner, limits: HTTP2ConnectionHandler.Limits,
    allowsHTTP1: Bool
  ) {
    self.id = id
    self.owner = owner
    self.limits = limits
    self.allowsHTTP1 = allowsHTTP1
  }

  func handlerAdded(context: ChannelHandlerContext) {
    context.eventLoop.assumeIsolated().scheduleTask(in: limits.handshake) {
      self.fail(.handshakeTimeout, context)
    }
    if !context.channel.isActive { fail(.handshakeClosed, context) }
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    guard case TLSUserEvent.handshakeCompleted(let negotiated) = event, !isDone else {
      return context.fireUserInboundEventTriggered(event)
    }
    let isHTTP2 = negotiated == "h2"
    guard isHTTP2 || allowsHTTP1 else { return fail(.http2NotOffered, context) }
    isDone = true
    let pipeline = context.pipeline.syncOperations
    do {
      try pipeline.addHandlers(
        isHTTP2
          ? [HTTP2ConnectionHandler(id: id, owner: owner, limits: limits)]
          : HTTP1ConnectionHandler.handlers(id, owner, limits), position: .after(self))
    } catch {
      owner.closed(id, wasUp: false, failure: .unconnected(.connectFailed))
      context.closeAtOnce()
    }
    pipeline.removeHandler(context: context, promise: nil)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    guard !(error is ChannelError), !(error is IOError) else { return fail(.handshakeClosed, context) }
    let tls = try? context.pipeline.syncOperations.handler(type: NIOSSLClientHandler.self)
    fail(ConnectionFailure(error, certificate: tls?.peerCertificate) ?? .tlsFailed, context)
  }

  func channelInactive(context: ChannelHandlerContext) {
    fail(.handshakeClosed, context)
    context.fireChannelInactive()
  }

  private func fail(_ failure: ConnectionFailure, _ context: ChannelHandlerContext) {
    guard !isDone else { return }
    isDone = true
    owner.closed(id, wasUp: false, failure: .unconnected(failure))
    context.closeAtOnce()
  }
}
