import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import Outgoing

/// Opens connections to one push service: to an address that was looked at, over TLS, with HTTP/2 where that is offered
/// and HTTP/1.1 elsewhere. A proxy is asked for the address, too, not for what the name may mean to it.
struct WebPushConnector: Connector {
  let host: String
  let port: Int
  let tls: NIOSSLContext
  let proxy: Proxy?
  let addresses: WebPushAddresses
  let shares: WebPushShares
  let standing: WebPushShares.Standing
  let limits: HTTP2ConnectionHandler.Limits

  func connect(_ id: ConnectionID, owner: any HTTP2ConnectionOwner, on eventLoop: any EventLoop) {
    guard shares.take(standing) else { return owner.closed(id, wasUp: false, failure: .overloaded) }
    Task {
      var failure = TransportFailure.connectFailed
      do {
        for address in try await addresses.addresses(of: host) {
          guard let channel = try? await open(id, owner, at: address, on: eventLoop) else { continue }
          channel.closeFuture.whenComplete { _ in shares.giveBack(standing) }
          return
        }
      } catch WebPushAddresses.Refusal.forbidden {
        failure = .forbiddenAddress
      } catch is LookupsExhausted {
        failure = .overloaded
      } catch {}
      shares.giveBack(standing)
      owner.closed(id, wasUp: false, failure: failure)
    }
  }

  /// A channel that is connected; what becomes of it then is told to the owner.
  private func open(
    _ id: ConnectionID, _ owner: any HTTP2ConnectionOwner, at address: String, on eventLoop: any EventLoop
  ) async throws -> any Channel {
    try await ClientBootstrap(group: eventLoop)
      .connectTimeout(.seconds(3))
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          guard let proxy else { return }
          let handler = ProxyConnectHandler(proxy: proxy, host: address, port: port) { result in
            do {
              try result.get()
              try addTLS(id, owner, to: channel)
            } catch {
              owner.closed(id, wasUp: false, failure: .proxyRefused)
              channel.close(promise: nil)
            }
          }
          try channel.pipeline.syncOperations.addHandler(handler)
        }
      }
      .connect(host: proxy?.host ?? address, port: proxy?.port ?? port)
      .flatMapThrowing { channel in
        if proxy == nil { try addTLS(id, owner, to: channel) }
        return channel
      }
      .get()
  }

  private func addTLS(_ id: ConnectionID, _ owner: any HTTP2ConnectionOwner, to channel: any Channel) throws {
    // An address is not a server name (RFC 6066 section 3): the certificate is then checked against the address.
    let name = IPAddress(host) == nil ? host : nil
    try channel.pipeline.syncOperations.addHandlers([
      NIOSSLClientHandler(context: tls, serverHostname: name),
      NegotiationHandler(id: id, owner: owner, limits: limits),
    ])
  }
}
