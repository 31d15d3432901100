import NIOCore
import NIOHPACK

/// What the peer of an HTTP/2 client says (RFC 9113), read from its bytes. Priorities, and whatever is added to the
/// protocol, mean nothing to this client.
struct HTTP2Input {
  enum Frame {
    case headers(HPACKHeaders, on: HTTP2StreamID, endsStream: Bool)
    case data(ByteBuffer, on: HTTP2StreamID, endsStream: Bool)
    case reset(on: HTTP2StreamID, code: UInt32)
    case settings(Settings)
    case ping(UInt64)
    case pong
    case goAway(last: HTTP2StreamID)
    /// Stream 0 is the connection.
    case window(on: HTTP2StreamID, increment: Int)
  }

  /// Those that matter to a client that sends requests.
  struct Settings {
    var headerTable: Int?
    var streams: Int?
    var initialWindow: Int?
  }

  /// The peer does not speak HTTP/2 as it should: the connection is of no use any more.
  struct Violation: Error {}

  /// What each side may send of bodies until it gets more, on a stream and on the connection.
  static let window = 65_535
  /// No longer frames are taken, and none are sent.
  static let longestFrame = 16_384
  /// What is announced as the most of a header list.
  static let longestHeaders = 16_384

  /// What may still be read that brings nothing.
  var allowance = FrameAllowance()

  private var bytes = ByteBuffer()
  private var decoder = HPACKDecoder(
    allocator: ByteBufferAllocator(), maxDynamicTableSize: HPACKDecoder.maxDynamicTableSize,
    maxHeaderListSize: longestHeaders)
  /// Headers of which there is more to come.
  private var unfinished: (stream: HTTP2StreamID, endsStream: Bool, block: ByteBuffer)?
  private var hasSettings = false
  /// What has come of bodies since the peer was last given more.
  private var received = 0

  /// Takes what has come.
  mutating func append(_ more: ByteBuffer) {
    if bytes.readableBytes == 0 {
      bytes = more
    } else {
      bytes.discardReadBytes()
      bytes.writeImmutableBuffer(more)
    }
  }

  /// The next frame, if it is there and means something.
  mutating func next() throws -> Frame? {
    while let (kind, flags, stream, payload) = try readFrame() {
      try allowance.spend(kind == .data ? 1 : 1 + payload.readableBytes / 256)
      if let frame = try frame(kind, flags, stream, payload) { return frame }
    }
    return nil
  }

  /// How much more the peer is to be allowed to send of bodies: what it has used, once that is worth a frame.
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
      // Forbidden by our settings.
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
    var (payload, settings) = (payload, Settings())
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

/// Odd numbers are those of a client; 0 stands for the connection.
typealias HTTP2StreamID = Int

/// RFC 9113 section 6.
enum HTTP2FrameKind: UInt8 {
  case data, headers, priority, reset, settings, push, ping, goAway, window, continuation
}

/// What they mean depends on the kind of frame.
struct HTTP2Flags: OptionSet {
  let rawValue: UInt8

  static let endStream = HTTP2Flags(rawValue: 0x1)
  static let acknowledged = HTTP2Flags(rawValue: 0x1)
  static let endHeaders = HTTP2Flags(rawValue: 0x4)
  static let padded = HTTP2Flags(rawValue: 0x8)
  static let priority = HTTP2Flags(rawValue: 0x20)
}

/// What a peer's frames may cost that bring nothing: header blocks that are no answer, pings, settings, empty and unknown
/// frames. It grows with time and with every request, and answers cost nothing.
///
/// A header block of a few hundred bytes has a field for each of them: a megabyte of such takes as long as 2,000 answers.
struct FrameAllowance {
  /// In frames and header fields.
  private static let most = 5000
  private static let perSecond = 100
  /// More than the peers of real life need besides an answer.
  static let perRequest = 50

  private var left = Self.most
  private var grown = NIODeadline.now()

  /// - Throws: ``HTTP2Input/Violation`` if there is not so much left.
  mutating func spend(_ cost: Int) throws(HTTP2Input.Violation) {
    left -= cost
    guard left < 0 else { return }
    let now = NIODeadline.now()
    let seconds = Int((now - grown).nanoseconds / 1_000_000_000)
    // Parts of a second are kept for the next time.
    grown = grown + .seconds(Int64(seconds))
    left += min(seconds, Self.most / Self.perSecond) * Self.perSecond
    guard left >= 0 else { throw HTTP2Input.Violation() }
  }

  /// Something has come that was asked for, or has been asked for.
  mutating func earn(_ worth: Int) { left = min(left + worth, Self.most) }
}

/// Ends a connection that nobody uses. To be used on its event loop.
struct IdleClock {
  /// How long that may last at present; nil: for ever.
  let limit: (@Sendable () -> TimeAmount)?
  private var scheduled: Scheduled<Void>?

  init(limit: (@Sendable () -> TimeAmount)?) { self.limit = limit }

  /// Nothing is under way any more.
  mutating func begin(on eventLoop: any EventLoop, _ expired: @escaping () -> Void) {
    guard let limit else { return }
    scheduled?.cancel()
    scheduled = eventLoop.assumeIsolated().scheduleTask(in: limit(), expired)
  }

  /// Something is.
  mutating func end() {
    scheduled?.cancel()
    scheduled = nil
  }
}
