import Foundation
import NIOCore
import NIOHPACK
import NIOHTTP2
import NIOPosix
import NIOSSL
import ProviderSimulator

/// An HTTP/2 connection to APNs frame by frame, for what an HTTP client hides.
final class FrameClient: Sendable {
  private let channel: any Channel
  private let frames: AsyncStream<HTTP2Frame>

  init(_ simulator: SimulatedProviders) async throws {
    var tls = try simulator.clientTLS
    tls.applicationProtocols = ["h2"]
    let context = try NIOSSLContext(configuration: tls)
    let (frames, continuation) = AsyncStream.makeStream(of: HTTP2Frame.self)
    self.frames = frames
    channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandlers([
            NIOSSLClientHandler(context: context, serverHostname: nil),
            NIOHTTP2Handler(mode: .client),
            Collector(continuation),
          ])
        }
      }
      .connect(host: "127.0.0.1", port: simulator.apnsPort).get()
  }

  /// Writes a whole push on a stream.
  func push(stream: Int, authorization: String, token: String = Client.token) {
    let headers = HPACKHeaders([
      (":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", "/3/device/\(token)"),
      ("authorization", authorization), ("apns-topic", "org.example.chat"),
    ])
    let id = HTTP2StreamID(stream)
    channel.write(HTTP2Frame(streamID: id, payload: .headers(.init(headers: headers))), promise: nil)
    channel.writeAndFlush(
      HTTP2Frame(
        streamID: id,
        payload: .data(.init(data: .byteBuffer(ByteBuffer(string: #"{"aps":{}}"#)), endStream: true))),
      promise: nil)
  }

  /// Asks for a path on a stream.
  func ask(_ method: String, _ path: String, stream: Int) {
    let headers = HPACKHeaders([
      (":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path),
    ])
    channel.writeAndFlush(
      HTTP2Frame(
        streamID: HTTP2StreamID(stream), payload: .headers(.init(headers: headers, endStream: true))),
      promise: nil)
  }

  /// The first frame that `pick` takes, or nil once the connection has ended.
  func next<Value>(_ pick: (HTTP2Frame) -> Value?) async -> Value? {
    for await frame in frames {
      if let value = pick(frame) { return value }
    }
    return nil
  }

  /// The next SETTINGS_MAX_CONCURRENT_STREAMS.
  func nextStreamLimit() async -> Int? {
    await next { frame in
      guard case .settings(.settings(let settings)) = frame.payload else { return nil }
      return settings.last { $0.parameter == .maxConcurrentStreams }?.value
    }
  }

  /// The last stream that the next GOAWAY promises to serve, if it is one without an error.
  func nextGoAway() async -> Int? {
    await next { frame in
      guard case .goAway(let last, .noError, _) = frame.payload else { return nil }
      return Int(last)
    }
  }

  /// The next `:status`, with its stream.
  func nextStatus() async -> (stream: Int, status: String)? {
    await next { frame in
      guard case .headers(let headers) = frame.payload else { return nil }
      return (Int(frame.streamID), headers.headers.first(name: ":status") ?? "")
    }
  }

  /// The next `:status`, or nil if a RST_STREAM or the end of the connection comes first.
  func nextAnswer() async -> String? {
    await next { frame -> String?? in
      switch frame.payload {
      case .headers(let headers): .some(headers.headers.first(name: ":status"))
      case .rstStream: .some(nil)
      default: nil
      }
    } ?? nil
  }

  func close() async {
    try? await channel.close()
  }
}

private final class Collector: ChannelInboundHandler {
  typealias InboundIn = HTTP2Frame

  private let continuation: AsyncStream<HTTP2Frame>.Continuation

  init(_ continuation: AsyncStream<HTTP2Frame>.Continuation) {
    self.continuation = continuation
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    continuation.yield(unwrapInboundIn(data))
  }

  func channelInactive(context: ChannelHandlerContext) {
    continuation.finish()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    context.close(promise: nil)
  }
}
