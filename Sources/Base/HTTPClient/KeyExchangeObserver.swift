package import Metrics
package import NIOCore

/// A handler that finds out the key exchange of a TLS connection. Must be added before NIOSSL's handler, and stays in the
/// pipeline: a handler that is removed while it is written to loses the flush.
package final class KeyExchangeObserver: ChannelDuplexHandler {
  package typealias InboundIn = ByteBuffer
  package typealias InboundOut = ByteBuffer
  package typealias OutboundIn = ByteBuffer
  package typealias OutboundOut = ByteBuffer

  package enum Side: Sendable {
    /// The peer is the server.
    case client
    /// We are.
    case server
  }

  private let side: Side
  private let onKeyExchange: (KeyExchange) -> Void
  private var reader: ServerHelloReader? = ServerHelloReader()

  package init(_ side: Side, onKeyExchange: @escaping (KeyExchange) -> Void) {
    self.side = side
    self.onKeyExchange = onKeyExchange
  }

  package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    context.fireChannelRead(data)
    if side == .client { read(unwrapInboundIn(data)) }
  }

  package func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    context.write(data, promise: promise)
    if side == .server { read(unwrapOutboundIn(data)) }
  }

  private func read(_ buffer: ByteBuffer) {
    guard let keyExchange = reader?.read(buffer.readableBytesView) else { return }
    reader = nil
    onKeyExchange(keyExchange)
  }
}

/// Counts the key exchanges of TLS connections.
package final class KeyExchangeMetrics: Sendable {
  private let counters: [String: [KeyExchange: Counter]]

  /// - Parameter legs: the label of each kind of connection. Prometheus sees no increase in a counter that appears with
  ///   its first event, so all start at 0.
  package init(legs: [String], factory: any MetricsFactory) {
    counters = Dictionary(
      uniqueKeysWithValues: legs.map { leg in
        let counters = KeyExchange.allCases.map { keyExchange in
          let labels = [("leg", leg), ("group", keyExchange.rawValue)]
          return (
            keyExchange,
            Counter(label: "push_bouncer_tls_key_exchange_total", dimensions: labels, factory: factory)
          )
        }
        return (leg, Dictionary(uniqueKeysWithValues: counters))
      })
  }

  package func count(_ keyExchange: KeyExchange, on leg: String) { counters[leg]?[keyExchange]?.increment() }
}
