import HummingbirdCore
import Logging
import NIOCore
import NIOSSL
import Operations

/// TLS connections, each with the certificate that is in force when the connection is opened. (Hummingbird's own
/// `TLSChannel` keeps the certificate that it was made with.)
struct CertifiedChannel<Base: ServerChildChannel>: ServerChildChannel {
  let base: Base
  let certificate: ServerCertificate

  func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Base.Value> {
    channel.eventLoop.makeCompletedFuture {
      try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: certificate.context))
    }.flatMap { base.setup(channel: channel, logger: logger) }
  }

  func handle(value: Base.Value, logger: Logger) async {
    await base.handle(value: value, logger: logger)
  }
}
