import NIOCore
import NIOHTTP2

/// One HTTP/2 connection's part in the faults. Belongs to the connection's event loop.
final class HTTP2Connection {
  let channel: any Channel
  private var openStreams = 0
  private var isGoingAway = false

  init(channel: any Channel) {
    self.channel = channel
  }

  func streamOpened() {
    openStreams += 1
  }

  func streamClosed() {
    openStreams -= 1
    if isGoingAway, openStreams == 0 { channel.close(promise: nil) }
  }

  /// How many streams the client may have open from now on.
  func allow(streams: Int) {
    let settings: HTTP2Settings = [HTTP2Setting(parameter: .maxConcurrentStreams, value: streams)]
    channel.writeAndFlush(HTTP2Frame(streamID: .rootStream, payload: .settings(.settings(settings))), promise: nil)
  }

  /// Takes no stream above the one given, and ends when those that are open have.
  func goAway(after stream: HTTP2StreamID) {
    guard !isGoingAway else { return }
    isGoingAway = true
    let frame = HTTP2Frame(
      streamID: .rootStream, payload: .goAway(lastStreamID: stream, errorCode: .noError, opaqueData: nil))
    channel.writeAndFlush(frame, promise: nil)
  }
}
