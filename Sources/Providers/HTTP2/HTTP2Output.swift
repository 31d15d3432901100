import NIOCore
import NIOHPACK

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
  private var compressor = HeaderCompressor()
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
    compressor.write(request.headers, into: &bytes)
    let length = bytes.writerIndex - start - 9
    if length <= HTTP2Input.longestFrame {
      bytes.setInteger(UInt32(length) << 8 | UInt32(HTTP2FrameKind.headers.rawValue), at: start)
    } else {
      splitHeaders(from: start, on: stream)
    }
    var rest = Unsent(stream: stream, body: request.body(), window: initialWindow)
    if !write(&rest) { unsent.append(rest) }
  }

  /// Drops the unsent rest of a request. Returns false if all of it was sent.
  mutating func forget(_ stream: HTTP2StreamID) -> Bool {
    guard let index = unsent.firstIndex(where: { $0.stream == stream }) else { return false }
    unsent.remove(at: index)
    return true
  }

  /// Writes as much of a body as the windows allow. Returns true if that was all of it.
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
    if let size = settings.headerTable { compressor.limit(to: size) }
    if let new = settings.initialWindow {
      for index in unsent.indices { unsent[index].window += new - initialWindow }
      initialWindow = new
    }
    writeFrame(.settings, [.acknowledged], on: 0, length: 0)
    sendMore()
  }

  /// Applies a WINDOW_UPDATE to a stream, or to the connection (stream 0).
  mutating func widen(_ stream: HTTP2StreamID, by increment: Int) throws {
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
  mutating func give(_ credit: Int) {
    writeFrame(.window, on: 0, length: 4)
    bytes.writeInteger(UInt32(credit))
  }

  private mutating func writeFrame(
    _ kind: HTTP2FrameKind, _ flags: HTTP2Flags = [], on stream: HTTP2StreamID, length: Int
  ) {
    bytes.writeMultipleIntegers(UInt32(length) << 8 | UInt32(kind.rawValue), flags.rawValue, UInt32(stream))
  }
}

/// Encodes request headers as HPACK (RFC 7541). Headers that requests share are sent once per connection and
/// then referred to by index. Does not use Huffman coding, which costs more than the bytes it saves.
struct HeaderCompressor {
  /// The used part of the static table (RFC 7541 appendix A).
  private static let known: [(name: String, value: String)] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"),
  ]
  private static let knownCount = 61

  /// The dynamic table, the latest entry last.
  private var table: [(name: String, value: String)] = []
  private var size = 0
  private var limit = 4096
  /// Whether the peer's decoder has to be told of a new limit.
  private var isLimitNew = false

  /// Applies the peer's limit of the dynamic table.
  mutating func limit(to size: Int) {
    // A larger limit is ignored: the table does not need it.
    guard size < limit else { return }
    limit = size
    isLimitNew = true
    makeRoom(for: 0)
  }

  mutating func write(_ headers: HPACKHeaders, into buffer: inout ByteBuffer) {
    if isLimitNew {
      Self.write(limit, bits: 5, of: 0x20, into: &buffer)
      isLimitNew = false
    }
    for (name, value, indexing) in headers { write(name, value, indexing, into: &buffer) }
  }

  private mutating func write(
    _ name: String, _ value: String, _ indexing: HPACKIndexing, into buffer: inout ByteBuffer
  ) {
    if indexing == .indexable, let index = index(of: name, value) {
      Self.write(index, bits: 7, of: 0x80, into: &buffer)
      return
    }
    let cost = name.utf8.count + value.utf8.count + 32
    let isKept = indexing == .indexable && cost <= limit
    let nameIndex = Self.knownIndex(of: name)
    switch indexing {
    case .indexable where isKept: Self.write(nameIndex, bits: 6, of: 0x40, into: &buffer)
    case .neverIndexed: Self.write(nameIndex, bits: 4, of: 0x10, into: &buffer)
    default: Self.write(nameIndex, bits: 4, of: 0, into: &buffer)
    }
    if nameIndex == 0 { Self.write(name, into: &buffer) }
    Self.write(value, into: &buffer)
    guard isKept else { return }
    makeRoom(for: cost)
    table.append((name, value))
    size += cost
  }

  private func index(of name: String, _ value: String) -> Int? {
    if let index = table.lastIndex(where: { $0.value == value && $0.name == name }) {
      return Self.knownCount + table.count - index
    }
    guard name.first == ":" else { return nil }
    return Self.known.firstIndex { $0.name == name && $0.value == value }.map { $0 + 1 }
  }

  private static func knownIndex(of name: String) -> Int {
    switch name {
    case ":authority": 1
    case ":path": 4
    case "authorization": 23
    case "content-type": 31
    default: 0
    }
  }

  private mutating func makeRoom(for cost: Int) {
    while size + cost > limit, let oldest = table.first {
      size -= oldest.name.utf8.count + oldest.value.utf8.count + 32
      table.removeFirst()
    }
  }

  /// Writes an integer with a prefix of `bits` bits (RFC 7541 section 5.1).
  private static func write(_ number: Int, bits: Int, of first: UInt8, into buffer: inout ByteBuffer) {
    let most = 1 << bits - 1
    guard number >= most else {
      buffer.writeInteger(first | UInt8(number))
      return
    }
    buffer.writeInteger(first | UInt8(most))
    var rest = number - most
    while rest >= 0x80 {
      buffer.writeInteger(UInt8(rest & 0x7f) | 0x80)
      rest >>= 7
    }
    buffer.writeInteger(UInt8(rest))
  }

  private static func write(_ text: String, into buffer: inout ByteBuffer) {
    write(text.utf8.count, bits: 7, of: 0, into: &buffer)
    buffer.writeString(text)
  }
}
