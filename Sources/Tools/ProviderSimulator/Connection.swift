import Foundation
import NIOCore
import NIOHTTP2

/// What a listener remembers of one connection. Used only on the connection's event loop.
final class Connection {
  let channel: any Channel
  /// Whether the connection speaks HTTP/2 and so can send a GOAWAY.
  let isHTTP2: Bool
  /// Requests that came in whole, in all.
  var requests = 0
  /// The key's topics when the connection was opened. A topic that is added later is not served on it.
  var topics: Set<String> = []
  /// The key of the first valid provider token. Tokens of other keys are refused on this connection.
  var keyID: String?
  /// The provider token that was last used.
  var providerToken: String?
  /// When that changed for the last time.
  var tokenChangedAt: Date?
  /// The time until which every push is refused because the provider token changed too often.
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
  /// The frame bypasses swift-nio-http2's state machine, which treats DATA of a refused stream as a
  /// connection error and closes the connection with its in-flight streams. Apple's servers still answer
  /// those.
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
