import NIOCore
import NIOHPACK

/// What the peer's frames mean.
extension HTTP2ConnectionHandler {
  func read(_ frame: HTTP2Input.Frame) throws {
    switch frame {
    case .headers(let headers, let stream, let endsStream): read(headers, on: stream, endsStream)
    case .data(let data, let stream, let endsStream): read(data, on: stream, endsStream)
    case .reset(let stream, let code): closed(stream, code)
    case .goAway(let last): goAway(last)
    case .settings(let settings):
      try owe()
      output.apply(settings)
      self.settings(streams: settings.streams)
    case .window(let stream, let increment): try output.widen(stream, by: increment)
    case .ping(let data):
      try owe()
      output.ping(data, isAnswer: true)
    case .pong: pong()
    }
  }

  private func read(_ headers: HPACKHeaders, on id: HTTP2StreamID, _ endsStream: Bool) {
    guard let stream = streams[id] else { return }
    // A second block is a trailer, one below 200 only announces the real one.
    if stream.status == nil, let status = headers.first(name: ":status").flatMap({ Int($0) }), status >= 200 {
      stream.status = status
      stream.headers = headers
      input.allowance.earn(headers.count)
    }
    if endsStream { answer(id, isOpen: false) }
  }

  private func read(_ data: ByteBuffer, on id: HTTP2StreamID, _ endsStream: Bool) {
    guard let stream = streams[id] else { return }
    guard stream.body.readableBytes + data.readableBytes <= ProviderResponse.maximumBody else {
      answer(id, isOpen: true)
      return
    }
    if data.readableBytes > 0 { input.allowance.earn(1) }
    if stream.body.readableBytes == 0 { stream.body = data } else { stream.body.writeImmutableBuffer(data) }
    if endsStream { answer(id, isOpen: false) }
  }

  /// The peer has closed the stream before its answer was whole.
  private func closed(_ stream: HTTP2StreamID, _ code: UInt32) {
    let refused: UInt32 = 7
    if code == refused {
      unprocessed(stream)
    } else {
      // With a status it is an answer, though perhaps a cut one; without, a reset.
      answer(stream, isOpen: false)
    }
  }

  /// The peer takes no more streams, and has not looked at those above `last` (RFC 9113 section 6.8).
  /// A first GOAWAY often carries the highest id there is, and a second one the true one.
  private func goAway(_ last: HTTP2StreamID) {
    drain()
    for stream in streams.keys.filter({ $0 > last }).sorted() { unprocessed(stream) }
  }
}
