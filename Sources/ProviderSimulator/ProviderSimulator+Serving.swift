import NIOCore
import NIOHTTP1
import NIOHTTP2
import NIOSSL
import NIOTLS

extension ProviderSimulator {
  /// Sets up a connection to APNs.
  static func serveAPNs(_ channel: any Channel, _ service: APNsService, _ tls: NIOSSLContext) throws {
    service.ledger.count { $0.connections += 1 }
    if service.plan.faults.outage { throw ChannelError.eof }
    let loop = channel.eventLoop
    let shared = NIOLoopBound((HTTP2Connection(channel: channel), APNsService.Session()), eventLoop: loop)
    let pipeline = channel.pipeline.syncOperations
    try pipeline.addHandler(NIOSSLServerHandler(context: tls))
    try pipeline.addHTTP2(to: channel, streams: 1) { stream in
      let (connection, session) = shared.value
      try stream.pipeline.syncOperations.addHandler(
        APNsStream(service: service, connection: connection, session: session))
    }
  }

  /// Sets up a connection to FCM's port.
  static func serveFCM(
    _ channel: any Channel, _ fcm: FCMService, _ control: ControlService, _ tls: NIOSSLContext
  ) throws {
    fcm.ledger.count { $0.connections += 1 }
    @Sendable func http1(_ channel: any Channel) throws {
      let pipeline = channel.pipeline.syncOperations
      try pipeline.configureHTTPServerPipeline()
      try pipeline.addHandler(FCMPortHandler(fcm: fcm, control: control, connection: channel))
    }
    @Sendable func http2(_ channel: any Channel) throws {
      try channel.pipeline.syncOperations.addHTTP2(to: channel, streams: 1000) { stream in
        try stream.pipeline.syncOperations.addHandler(HTTP2FramePayloadToHTTP1ServerCodec())
        try stream.pipeline.syncOperations.addHandler(
          FCMPortHandler(fcm: fcm, control: control, connection: channel))
      }
    }
    try channel.pipeline.syncOperations.addHandler(
      FirstByteHandler { channel, isTLS in
        guard isTLS else { return try http1(channel) }
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandler(NIOSSLServerHandler(context: tls))
        try pipeline.addHandler(
          ApplicationProtocolNegotiationHandler { result, channel in
            channel.eventLoop.makeCompletedFuture {
              if result == .negotiated("h2") { try http2(channel) } else { try http1(channel) }
            }
          })
      })
  }
}
