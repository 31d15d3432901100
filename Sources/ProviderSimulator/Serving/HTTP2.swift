import NIOCore
import NIOHTTP2

extension ChannelPipeline.SynchronousOperations {
  /// Serves HTTP/2. NIO's limits against abusive clients are out of the way: a benchmark that resets
  /// many streams is to meet the provider's rules, not those.
  func addHTTP2(
    to channel: any Channel, streams: UInt32, initializer: @escaping @Sendable (any Channel) throws -> Void
  ) throws {
    var connection = NIOHTTP2Handler.ConnectionConfiguration()
    connection.initialSettings = [
      HTTP2Setting(parameter: .maxConcurrentStreams, value: Int(streams)),
      HTTP2Setting(parameter: .maxHeaderListSize, value: 16_384),
    ]
    connection.maximumSequentialEmptyDataFrames = 1000
    connection.maximumBufferedControlFrames = 1_000_000
    connection.maximumRecentlyResetStreams = 10_000
    connection.maximumConnectionGlitches = .max
    connection.targetWindowSize = 4 << 20
    connection.controlFrameRateLimit.maximumCount = .max
    var stream = NIOHTTP2Handler.StreamConfiguration()
    stream.streamResetFrameRateLimit.maximumCount = .max
    stream.streamErrorRateLimit.maximumCount = .max
    try addHandler(
      NIOHTTP2Handler(
        mode: .server, eventLoop: channel.eventLoop, connectionConfiguration: connection,
        streamConfiguration: stream
      ) { stream in
        stream.eventLoop.makeCompletedFuture { try initializer(stream) }
      })
  }
}
