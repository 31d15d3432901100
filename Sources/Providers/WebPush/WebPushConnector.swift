import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL

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
    guard shares.hasRoom(for: standing) else {
      return owner.closed(id, wasUp: false, failure: .overloaded)
    }
    Task {
      var failure = TransportFailure.connectFailed
      do {
        // No connection is taken while the name is looked up: slow name servers keep none from others.
        for address in try await addresses.addresses(of: host) {
          guard let place = shares.take(standing, for: holders(at: address)) else {
            failure = .overloaded
            continue
          }
          guard let channel = try? await open(id, owner, at: address, on: eventLoop) else {
            shares.giveBack(place)
            continue
          }
          channel.closeFuture.whenComplete { _ in shares.giveBack(place) }
          return
        }
      } catch WebPushAddresses.Refusal.forbidden {
        failure = .forbiddenAddress
      } catch is LookupsExhausted {
        failure = .overloaded
      } catch {}
      owner.closed(id, wasUp: false, failure: failure)
    }
  }

  private func holders(at address: String) -> [WebPushShares.Holder] {
    IPAddress(address).map { [.network($0.network)] } ?? []
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
    try channel.pipeline.syncOperations.addHandlers([
      NIOSSLClientHandler.proving(host, context: tls),
      NegotiationHandler(id: id, owner: owner, limits: limits),
    ])
  }
}
