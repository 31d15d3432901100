import NIOCore

/// Writes the frames that an HTTP/2 client sends (RFC 9113): requests, within the peer's flow-control
/// windows, and control frames.
struct HTTP2Output {
  /// The rest of a request's body, waiting for window space.
  private struct Unsent {
    let stream: HTTP2StreamID
    var body: ByteBuffer
    var window: Int
  }

  /// Bytes to send; the caller clears them once sent.
  private(set) var bytes = ByteBuffer()
  private var encoder = HeaderEncoder()
  private var window = HTTP2Input.window
  private var initialWindow = HTTP2Input.window
  /// In the order of their requests.
  private var unsent: [Unsent] = []

  /// Begins with the client preface and SETTINGS.
  init() {
    bytes.writeStaticString("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    writeFrame(.settings, on: 0, length: 12)
    // Settings: ENABLE_PUSH is 0, and MAX_HEADER_LIST_SIZE is limited.
    bytes.writeMultipleIntegers(UInt16(2), UInt32(0), UInt16(6), UInt32(HTTP2Input.longestHeaders))
  }

  mutating func clear() {
    // Frees the buffer after a large burst.
    if bytes.capacity > 65_536 { bytes = ByteBuffer() } else { bytes.clear() }
  }

  // MARK: Requests

  /// Writes a request's headers, and as much of its body as the windows allow.
  mutating func send(_ request: ProviderRequest, on stream: HTTP2StreamID) {
    let start = bytes.writerIndex
    writeFrame(.headers, [.endHeaders], on: stream, length: 0)
    encoder.encode(request.headers, to: &bytes)
    let length = bytes.writerIndex - start - 9
    if length <= HTTP2Input.longestFrame {
      bytes.setInteger(UInt32(length) << 8 | UInt32(HTTP2FrameKind.headers.rawValue), at: start)
    } else {
      splitHeaders(from: start, on: stream)
    }
    var rest = Unsent(stream: stream, body: request.body(), window: initialWindow)
    if !write(&rest) { unsent.append(rest) }
  }

  /// Drops the unsent rest of a request.
  ///
  /// - Returns: false if all of it was sent.
  mutating func discardUnsent(of stream: HTTP2StreamID) -> Bool {
    guard let index = unsent.firstIndex(where: { $0.stream == stream }) else { return false }
    unsent.remove(at: index)
    return true
  }

  /// Writes as much of a body as the windows allow.
  ///
  /// - Returns: whether that was all of it.
  private mutating func write(_ rest: inout Unsent) -> Bool {
    while true {
      let length = min(rest.body.readableBytes, window, rest.window, HTTP2Input.longestFrame)
      let isLast = length == rest.body.readableBytes
      guard length > 0 || isLast else { return false }
      writeFrame(.data, isLast ? [.endStream] : [], on: rest.stream, length: length)
      bytes.writeBytes(rest.body.readableBytesView.prefix(length))
      rest.body.moveReaderIndex(forwardBy: length)
      window -= length
      rest.window -= length
      if isLast { return true }
    }
  }

  private mutating func splitHeaders(from start: Int, on stream: HTTP2StreamID) {
    var block = bytes.getSlice(at: start + 9, length: bytes.writerIndex - start - 9) ?? ByteBuffer()
    bytes.moveWriterIndex(to: start)
    var kind = HTTP2FrameKind.headers
    while var part = block.readSlice(length: min(block.readableBytes, HTTP2Input.longestFrame)),
      part.readableBytes > 0
    {
      writeFrame(kind, block.readableBytes == 0 ? [.endHeaders] : [], on: stream, length: part.readableBytes)
      bytes.writeBuffer(&part)
      kind = .continuation
    }
  }

  // MARK: What the peer allows

  /// Applies the peer's settings and acknowledges them.
  mutating func apply(_ settings: HTTP2Input.Settings) {
    // A larger table is not needed.
    if let size = settings.headerTable, size < encoder.limit { encoder.shrink(to: size) }
    if let new = settings.initialWindow {
      for index in unsent.indices { unsent[index].window += new - initialWindow }
      initialWindow = new
    }
    writeFrame(.settings, [.acknowledged], on: 0, length: 0)
    sendMore()
  }

  /// Applies a WINDOW_UPDATE to a stream, or to the connection (stream 0).
  mutating func updateWindow(of stream: HTTP2StreamID, by increment: Int) throws {
    if stream == 0 {
      window += increment
      guard window <= 0x7fff_ffff else { throw HTTP2Input.Violation() }
    } else if let index = unsent.firstIndex(where: { $0.stream == stream }) {
      unsent[index].window += increment
    }
    sendMore()
  }

  private mutating func sendMore() {
    guard window > 0, !unsent.isEmpty else { return }
    var waiting: [Unsent] = []
    for var rest in unsent where !write(&rest) { waiting.append(rest) }
    unsent = waiting
  }

  // MARK: The rest

  /// Cancels the stream (RST_STREAM with `CANCEL`).
  mutating func reset(_ stream: HTTP2StreamID) {
    writeFrame(.reset, on: stream, length: 4)
    bytes.writeInteger(UInt32(8))
  }

  mutating func ping(_ data: UInt64, isAnswer: Bool) {
    writeFrame(.ping, isAnswer ? [.acknowledged] : [], on: 0, length: 8)
    bytes.writeInteger(data)
  }

  /// Sends a WINDOW_UPDATE for the connection.
  mutating func writeWindowUpdate(_ credit: Int) {
    writeFrame(.window, on: 0, length: 4)
    bytes.writeInteger(UInt32(credit))
  }

  private mutating func writeFrame(
    _ kind: HTTP2FrameKind, _ flags: HTTP2Flags = [], on stream: HTTP2StreamID, length: Int
  ) {
    bytes.writeMultipleIntegers(UInt32(length) << 8 | UInt32(kind.rawValue), flags.rawValue, UInt32(stream))
  }
}
