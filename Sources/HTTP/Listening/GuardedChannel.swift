import HummingbirdCore
import Logging
import NIOCore
import NIOSSL

/// A connection behind its ``Door``, with TLS where there is a certificate: the one that is in force when the
/// connection is opened. (Hummingbird's own `TLSChannel` keeps the certificate that it was made with.)
struct GuardedChannel<Base: ServerChildChannel>: ServerChildChannel {
  let base: Base
  /// The TLS context for a new connection; nil for HTTP in clear.
  let tls: (@Sendable () -> NIOSSLContext)?
  let connections: OpenConnections

  func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Base.Value> {
    channel.eventLoop.makeCompletedFuture {
      let pipeline = channel.pipeline.syncOperations
      try pipeline.addHandler(Door(connections))
      if let tls { try pipeline.addHandler(NIOSSLServerHandler(context: tls())) }
    }.flatMap { base.setup(channel: channel, logger: logger) }
  }

  func handle(value: Base.Value, logger: Logger) async {
    await base.handle(value: value, logger: logger)
  }
}
