import NIOCore
import NIOHPACK

/// Reads the frames that a server sends to an HTTP/2 client (RFC 9113). Ignores priorities and extension
/// frames.
struct HTTP2Input {
  enum Frame {
    case headers(HPACKHeaders, on: HTTP2StreamID, endsStream: Bool)
    case data(ByteBuffer, on: HTTP2StreamID, endsStream: Bool)
    case reset(on: HTTP2StreamID, code: UInt32)
    case settings(Settings)
    case ping(UInt64)
    case pong
    case goAway(last: HTTP2StreamID)
    /// Stream 0 means the whole connection.
    case window(on: HTTP2StreamID, increment: Int)
  }

  /// The settings that matter to a client that only sends requests.
  struct Settings {
    var headerTable: Int?
    var streams: Int?
    var initialWindow: Int?
  }

  /// The peer breaks the protocol, so the connection has to be closed.
  struct Violation: Error {}

  /// Initial flow-control window of a stream and of the connection, in bytes.
  static let window = 65_535
  /// Longest frame that is accepted or sent, in bytes.
  static let longestFrame = 16_384
  /// The header list size that we announce as our limit, in bytes.
  static let longestHeaders = 16_384

  var allowance = FrameAllowance()

  private var bytes = ByteBuffer()
  private var decoder = HPACKDecoder(
    allocator: ByteBufferAllocator(), maxDynamicTableSize: HPACKDecoder.maxDynamicTableSize,
    maxHeaderListSize: longestHeaders)
  /// A header block whose CONTINUATION frames have not all come.
  private var unfinished: (stream: HTTP2StreamID, endsStream: Bool, block: ByteBuffer)?
  private var hasSettings = false
  /// Bytes of DATA received since the last WINDOW_UPDATE.
  private var received = 0

  mutating func append(_ more: ByteBuffer) {
    if bytes.readableBytes == 0 {
      bytes = more
    } else {
      bytes.discardReadBytes()
      bytes.writeImmutableBuffer(more)
    }
  }

  /// The next complete frame that is not ignored.
  mutating func next() throws -> Frame? {
    while let (kind, flags, stream, payload) = try readFrame() {
      try allowance.spend(kind == .data ? 1 : 1 + payload.readableBytes / 256)
      if let frame = try frame(kind, flags, stream, payload) { return frame }
    }
    return nil
  }

  /// The increment for a WINDOW_UPDATE; nil while too little has been received to be worth a frame.
  mutating func credit() -> Int? {
    guard received > Self.window / 2 else { return nil }
    defer { received = 0 }
    return received
  }

  private mutating func readFrame() throws -> (
    kind: HTTP2FrameKind?, flags: HTTP2Flags, stream: HTTP2StreamID, payload: ByteBuffer
  )? {
    let start = bytes.readerIndex
    guard let word = bytes.getInteger(at: start, as: UInt32.self),
      let flags = bytes.getInteger(at: start + 4, as: UInt8.self),
      let stream = bytes.getInteger(at: start + 5, as: UInt32.self)
    else { return nil }
    let length = Int(word >> 8)
    guard length <= Self.longestFrame else { throw Violation() }
    guard let payload = bytes.getSlice(at: start + 9, length: length) else { return nil }
    bytes.moveReaderIndex(to: start + 9 + length)
    return (
      HTTP2FrameKind(rawValue: UInt8(word & 0xff)), HTTP2Flags(rawValue: flags), Int(stream & 0x7fff_ffff),
      payload
    )
  }

  private mutating func frame(
    _ kind: HTTP2FrameKind?, _ flags: HTTP2Flags, _ stream: HTTP2StreamID, _ payload: ByteBuffer
  ) throws -> Frame? {
    guard hasSettings || kind == .settings, (unfinished == nil) == (kind != .continuation) else {
      throw Violation()
    }
    var payload = payload
    switch kind {
    case .data:
      received += payload.readableBytes
      return .data(
        try Self.unpadded(payload, flags, stream), on: stream, endsStream: flags.contains(.endStream))
    case .headers:
      payload = try Self.unpadded(payload, flags, stream)
      if flags.contains(.priority), payload.readSlice(length: 5) == nil { throw Violation() }
      return try headers(stream, flags, payload, endsStream: flags.contains(.endStream))
    case .continuation:
      guard let (first, endsStream, block) = unfinished, first == stream else { throw Violation() }
      unfinished = nil
      return try headers(stream, flags, Self.joined(block, payload), endsStream: endsStream)
    case .reset:
      guard stream != 0, payload.readableBytes == 4, let code = payload.readInteger(as: UInt32.self) else {
        throw Violation()
      }
      return .reset(on: stream, code: code)
    case .settings:
      hasSettings = true
      guard stream == 0 else { throw Violation() }
      return flags.contains(.acknowledged) ? nil : .settings(try Self.settings(payload))
    case .ping:
      guard stream == 0, payload.readableBytes == 8, let data = payload.readInteger(as: UInt64.self) else {
        throw Violation()
      }
      return flags.contains(.acknowledged) ? .pong : .ping(data)
    case .goAway:
      guard stream == 0, payload.readableBytes >= 8, let last = payload.readInteger(as: UInt32.self) else {
        throw Violation()
      }
      return .goAway(last: Int(last & 0x7fff_ffff))
    case .window:
      guard payload.readableBytes == 4, let word = payload.readInteger(as: UInt32.self),
        word & 0x7fff_ffff > 0
      else { throw Violation() }
      return .window(on: stream, increment: Int(word & 0x7fff_ffff))
    case .push:
      // Our settings forbid server push.
      throw Violation()
    case .priority, nil:
      return nil
    }
  }

  private mutating func headers(
    _ stream: HTTP2StreamID, _ flags: HTTP2Flags, _ block: ByteBuffer, endsStream: Bool
  ) throws -> Frame? {
    guard flags.contains(.endHeaders) else {
      unfinished = (stream, endsStream, block)
      return nil
    }
    var block = block
    let headers = try decoder.decodeHeaders(from: &block)
    try allowance.spend(headers.count)
    return .headers(headers, on: stream, endsStream: endsStream)
  }

  private static func joined(_ block: ByteBuffer, _ more: ByteBuffer) throws -> ByteBuffer {
    guard block.readableBytes + more.readableBytes <= 2 * longestHeaders else { throw Violation() }
    var block = block
    block.writeImmutableBuffer(more)
    return block
  }

  private static func unpadded(_ payload: ByteBuffer, _ flags: HTTP2Flags, _ stream: HTTP2StreamID) throws
    -> ByteBuffer
  {
    guard stream != 0 else { throw Violation() }
    guard flags.contains(.padded) else { return payload }
    var payload = payload
    guard let padding = payload.readInteger(as: UInt8.self),
      let rest = payload.readSlice(length: payload.readableBytes - Int(padding))
    else { throw Violation() }
    return rest
  }

  private static func settings(_ payload: ByteBuffer) throws -> Settings {
    guard payload.readableBytes % 6 == 0 else { throw Violation() }
    var payload = payload
    var settings = Settings()
    while let (name, value) = payload.readMultipleIntegers(as: (UInt16, UInt32).self) {
      switch name {
      case 1: settings.headerTable = Int(value)
      case 3: settings.streams = Int(value)
      case 4:
        guard value <= 0x7fff_ffff else { throw Violation() }
        settings.initialWindow = Int(value)
      default: break
      }
    }
    return settings
  }
}

/// The number of a stream. Clients use odd numbers; 0 is the connection.
package typealias HTTP2StreamID = Int

/// The kinds of frames (RFC 9113 section 6).
enum HTTP2FrameKind: UInt8 {
  case data, headers, priority, reset, settings, push, ping, goAway, window, continuation
}

/// The flags of a frame. Their meaning depends on its kind.
struct HTTP2Flags: OptionSet {
  let rawValue: UInt8

  static let endStream = HTTP2Flags(rawValue: 0x1)
  static let acknowledged = HTTP2Flags(rawValue: 0x1)
  static let endHeaders = HTTP2Flags(rawValue: 0x4)
  static let padded = HTTP2Flags(rawValue: 0x8)
  static let priority = HTTP2Flags(rawValue: 0x20)
}

/// Limits the work that a peer's useless frames cause: header blocks that are no answer, PINGs, SETTINGS,
/// empty and unknown frames. The allowance grows with time and with every request; answers are free.
///
/// It counts header fields too: a megabyte of small header blocks takes as long as 2,000 answers.
struct FrameAllowance {
  /// The maximum, in frames and header fields.
  private static let maximum = 5000
  private static let perSecond = 100
  /// The allowance for each request: more than real peers use besides an answer.
  static let perRequest = 50

  private var left = Self.maximum
  private var grown = NIODeadline.now()

  /// - Throws: ``HTTP2Input/Violation`` if the allowance is used up.
  mutating func spend(_ cost: Int) throws(HTTP2Input.Violation) {
    left -= cost
    guard left < 0 else { return }
    let now = NIODeadline.now()
    let seconds = Int((now - grown).nanoseconds / 1_000_000_000)
    // Keeps the fraction of a second for the next call.
    grown = grown + .seconds(Int64(seconds))
    left += min(seconds, Self.maximum / Self.perSecond) * Self.perSecond
    guard left >= 0 else { throw HTTP2Input.Violation() }
  }

  /// Raises the allowance, for a request that goes out or for an answer to one.
  mutating func earn(_ worth: Int) { left = min(left + worth, Self.maximum) }
}

/// Closes a connection that is idle for too long. Used on its event loop only.
struct IdleTimer {
  /// How long the connection may be idle, asked each time; nil for no limit.
  let limit: (@Sendable () -> TimeAmount)?
  private var scheduled: Scheduled<Void>?

  init(limit: (@Sendable () -> TimeAmount)?) { self.limit = limit }

  /// Starts the timer when no request is under way any more; ``stop()`` has stopped the one before.
  mutating func start(on eventLoop: any EventLoop, _ expired: @escaping () -> Void) {
    guard let limit else { return }
    scheduled = eventLoop.assumeIsolated().scheduleTask(in: limit(), expired)
  }

  /// Stops the timer when a request begins.
  mutating func stop() {
    scheduled?.cancel()
    scheduled = nil
  }
}
