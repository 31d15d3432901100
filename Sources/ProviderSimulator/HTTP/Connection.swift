import Foundation
import NIOCore
import NIOHTTP2

/// What a listener remembers of one connection. Used only on the connection's event loop.
final class Connection {
  let channel: any Channel
  /// Whether a GOAWAY can be said here.
  let isHTTP2: Bool
  /// Requests that came in whole, in all.
  var requests = 0
  /// What the key could push to when the connection was opened: a topic that is added later is not served here.
  var topics: Set<String> = []
  /// The key of the first good provider token: another's is not taken here.
  var keyID: String?
  /// The provider token that was last used.
  var providerToken: String?
  /// When that changed for the last time.
  var tokenChangedAt: Date?
  /// Until then nothing is taken: the provider token changed too often.
  var blockedUntil: Date?
  /// Whether it has been counted as one that pushes.
  var isCounted = false

  private var open = 0
  private var lastStream: Int?
  private var newestStream = 0

  init(channel: any Channel, isHTTP2: Bool) {
    self.channel = channel
    self.isHTTP2 = isHTTP2
  }

  /// A stream has been opened. False: it is above what GOAWAY promised to serve, so it must not be looked at.
  func opened(stream: Int) -> Bool {
    guard stream <= lastStream ?? .max else { return false }
    newestStream = max(newestStream, stream)
    open += 1
    return true
  }

  /// A stream for which `opened` said true has ended.
  func closedStream() {
    open -= 1
    closeIfDrained()
  }

  /// Raises the number of concurrent streams, as APNs does after the first good token.
  func allowStreams(_ count: Int) {
    channel.writeAndFlush(
      HTTP2Frame(
        streamID: .rootStream,
        payload: .settings(.settings([.init(parameter: .maxConcurrentStreams, value: count)]))),
      promise: nil)
  }

  /// Promises to serve the streams opened so far, and closes once they are answered.
  ///
  /// The frame goes round swift-nio-http2's state machine: that one takes DATA of a stream it has refused for an
  /// error of the connection and closes it, in-flight streams and all. Apple's servers keep their promise.
  func goAway() {
    guard lastStream == nil,
      let http2 = try? channel.pipeline.syncOperations.context(handlerType: NIOHTTP2Handler.self)
    else { return }
    lastStream = newestStream
    var frame = channel.allocator.buffer(capacity: 17)
    // RFC 9113 6.8: length, type 7, no flags, stream 0; then last stream id and NO_ERROR.
    frame.writeInteger(UInt32(8) << 8 | 0x7)
    frame.writeInteger(UInt8(0))
    frame.writeInteger(UInt32(0))
    frame.writeInteger(UInt32(newestStream))
    frame.writeInteger(UInt32(0))
    http2.writeAndFlush(NIOAny(frame), promise: nil)
    closeIfDrained()
  }

  private func closeIfDrained() {
    guard lastStream != nil, open == 0 else { return }
    // Closing with unread bytes in the socket would make the kernel send RST, which may overtake the last answers.
    channel.eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(250)) { [channel] in
      channel.close(promise: nil)
    }
  }

  /// The peer vanishes: nothing is read or answered any more.
  func freeze() {
    channel.setOption(.autoRead, value: false).whenFailure { _ in }
  }
}
