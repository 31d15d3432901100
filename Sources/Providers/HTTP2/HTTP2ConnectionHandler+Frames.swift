import NIOCore
import NIOHPACK
import NIOHTTP2

/// What the peer's frames mean.
extension HTTP2ConnectionHandler {
  func read(_ frame: HTTP2Frame) {
    switch frame.payload {
    case .headers(let payload): read(payload, on: frame.streamID)
    case .data(let payload): read(payload, on: frame.streamID)
    case .rstStream(let code): closed(frame.streamID, code)
    case .goAway(let last, _, _): goAway(last)
    case .settings(.settings(let settings)):
      self.settings(streams: settings.last { $0.parameter == .maxConcurrentStreams }?.value)
    case .ping(_, ack: true): pong()
    default: break
    }
  }

  private func read(_ payload: HTTP2Frame.FramePayload.Headers, on stream: HTTP2StreamID) {
    guard streams[stream] != nil else { return }
    // A second block is a trailer, one below 200 only announces the real one.
    if streams[stream]?.status == nil,
      let status = payload.headers.first(name: ":status").flatMap({ Int($0) }),
      status >= 200
    {
      streams[stream]?.status = status
      streams[stream]?.headers = payload.headers
    }
    if payload.endStream { answer(stream) }
  }

  private func read(_ payload: HTTP2Frame.FramePayload.Data, on stream: HTTP2StreamID) {
    guard let received = streams[stream]?.body.readableBytes, case .byteBuffer(var data) = payload.data else {
      return
    }
    guard received + data.readableBytes <= ProviderResponse.maximumBody else {
      answer(stream, reset: true)
      return
    }
    streams[stream]?.body.writeBuffer(&data)
    if payload.endStream { answer(stream) }
  }

  /// The stream is closed before its answer was whole (for whole ones this comes too late to matter).
  func closed(_ stream: HTTP2StreamID, _ code: HTTP2ErrorCode?) {
    guard let open = streams[stream] else { return }
    if code == .refusedStream {
      _ = take(stream)
      owner.unprocessed(open.pending, on: id)
    } else {
      // With a status it is an answer, though perhaps a cut one; without, a reset.
      streams[stream]?.isSent = true
      answer(stream)
    }
  }

  /// The peer takes no more streams, and has not looked at those above `last` (RFC 9113 section 6.8).
  /// A first GOAWAY often carries the highest id there is, and a second one the true one.
  private func goAway(_ last: HTTP2StreamID) {
    drain()
    for stream in streams.keys.filter({ $0 > last }).sorted() {
      guard let taken = take(stream) else { continue }
      owner.unprocessed(taken.pending, on: id)
    }
  }
}
