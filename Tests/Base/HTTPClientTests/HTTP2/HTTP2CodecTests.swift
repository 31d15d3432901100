import Logging
import NIOCore
import NIOEmbedded
import NIOHPACK
import NIOPosix
import TestSupport
import Testing

@testable import HTTPClient

/// Tests that one side can read what the other writes. Except for the preface, both sides have the same
/// format.
@Suite("HTTP/2 as bytes")
struct HTTP2CodecTests {
  static let preface = 24

  /// The frames that the bytes are, which come in parts of that many.
  static func frames(_ bytes: ByteBuffer, by length: Int = 7) throws -> [HTTP2Input.Frame] {
    var (rest, input, frames) = (bytes, HTTP2Input(), [HTTP2Input.Frame]())
    while let part = rest.readSlice(length: min(length, rest.readableBytes)), part.readableBytes > 0 {
      input.append(part)
      while let frame = try input.next() { frames.append(frame) }
    }
    return frames
  }

  static func frame(_ kind: UInt8, _ flags: UInt8, on stream: UInt32, _ payload: [UInt8]) -> [UInt8] {
    [0, UInt8(payload.count >> 8), UInt8(payload.count & 0xff), kind, flags]
      + (0..<4).map { UInt8(truncatingIfNeeded: stream >> (24 - 8 * $0)) } + payload
  }

  static let settings = frame(4, 0, on: 0, [])

  static func request(_ fields: HPACKHeaders = [:], body: Int) -> ProviderRequest {
    var headers: HPACKHeaders = [
      ":method": "POST", ":scheme": "https", ":authority": "a.example", "authorization": "bearer x",
    ]
    for (name, value, indexing) in fields { headers.add(name: name, value: value, indexing: indexing) }
    return ProviderRequest(headers: headers, body: ByteBuffer(repeating: 7, count: body))
  }

  /// The lengths of the bodies' parts, by stream, and which streams have ended.
  static func bodies(_ frames: [HTTP2Input.Frame]) -> (parts: [HTTP2StreamID: [Int]], ended: [HTTP2StreamID])
  {
    var (parts, ended) = ([HTTP2StreamID: [Int]](), [HTTP2StreamID]())
    for case .data(let data, let stream, let endsStream) in frames {
      parts[stream, default: []].append(data.readableBytes)
      if endsStream { ended.append(stream) }
    }
    return (parts, ended)
  }

  @Test(arguments: [1, 2, 9, 100, 100_000]) func `A request is read as it was written`(length: Int) throws {
    var output = HTTP2Output()
    let requests = [Self.request(["x": "1"], body: 0), Self.request(["x": "2"], body: 40_000)]
    for (index, request) in requests.enumerated() { output.send(request, on: 2 * index + 1) }
    output.ping(9, isAnswer: false)
    output.reset(3)
    output.writeWindowUpdate(5)
    var bytes = output.bytes
    #expect(bytes.readString(length: Self.preface) == "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    let frames = try Self.frames(bytes, by: length)
    var headers: [HPACKHeaders] = []
    for case .headers(let list, _, endsStream: false) in frames { headers.append(list) }
    #expect(headers == requests.map(\.headers))
    #expect(Self.bodies(frames).parts == [1: [0], 3: [16_384, 16_384, 7232]])
    #expect(Self.bodies(frames).ended == [1, 3])
    guard case .ping(9) = frames[frames.count - 3], case .reset(on: 3, code: 8) = frames[frames.count - 2],
      case .window(on: 0, increment: 5) = frames[frames.count - 1]
    else {
      Issue.record("\(frames.suffix(3))")
      return
    }
  }

  @Test func `Headers that are longer than a frame go on in the next`() throws {
    var output = HTTP2Output()
    let long = String(repeating: "x", count: 12_000)
    output.send(Self.request(["a": "\(long)1"], body: 1), on: 1)
    output.send(Self.request([":path": "/\(long)", "b": "\(long)"], body: 1), on: 3)
    #expect(Self.kinds(output.bytes) == [4, 1, 0, 1, 9, 0])
  }

  /// The kinds of frames, by their lengths alone.
  static func kinds(_ bytes: ByteBuffer) -> [UInt8] {
    var (bytes, kinds) = (bytes, [UInt8]())
    bytes.moveReaderIndex(forwardBy: preface)
    while let word = bytes.readInteger(as: UInt32.self) {
      kinds.append(UInt8(word & 0xff))
      bytes.moveReaderIndex(forwardBy: 5 + Int(word >> 8))
    }
    return kinds
  }

  @Test func `Bodies go as far as the peer's windows allow, first come first served`() throws {
    var output = HTTP2Output()
    output.apply(.init(initialWindow: 50_000))
    for stream in [1, 3, 5] { output.send(Self.request(body: 30_000), on: stream) }
    func sent() throws -> [HTTP2StreamID: Int] {
      var bytes = output.bytes
      bytes.moveReaderIndex(forwardBy: Self.preface)
      return Self.bodies(try Self.frames(bytes)).parts.mapValues { $0.reduce(0, +) }
    }
    #expect(try sent() == [1: 30_000, 3: 30_000, 5: 5535])
    output.send(Self.request(body: 1), on: 11)
    let hadMore = (output.discardUnsent(of: 3), output.discardUnsent(of: 11))
    #expect(hadMore == (false, true))
    // What has a window of its own overtakes what has none.
    output.apply(.init(initialWindow: 10_000))
    try output.updateWindow(of: 0, by: 100_000)
    #expect(try sent() == [1: 30_000, 3: 30_000, 5: 10_000])
    output.send(Self.request(body: 10_000), on: 7)
    output.send(Self.request(body: 10_001), on: 9)
    #expect(try sent()[7] == 10_000)
    #expect(try sent()[9] == 10_000)
    try output.updateWindow(of: 9, by: 1)
    try output.updateWindow(of: 5, by: 1)
    #expect(try sent()[9] == 10_001)
    #expect(try sent()[5] == 10_001)
    var bytes = output.bytes
    bytes.moveReaderIndex(forwardBy: Self.preface)
    #expect(Self.bodies(try Self.frames(bytes)).ended == [1, 3, 7, 9])
    #expect(throws: HTTP2Input.Violation.self) { try output.updateWindow(of: 0, by: 0x7fff_ffff) }
  }

  @Test func `What requests have in common is sent once`() {
    var output = HTTP2Output()
    let request = Self.request(["once": "y"], body: 0)
    var lengths: [Int] = []
    for stream in [1, 3] {
      output.clear()
      output.send(request, on: stream)
      lengths.append(output.bytes.readableBytes - 2 * 9)
    }
    #expect(lengths[0] > 30)
    #expect(lengths[1] == 5)
  }

  @Test(arguments: [0, 40, 100, 300, 4096])
  func `Any headers are read as they were written, whatever the peer lets be kept of them`(
    limit: Int
  ) throws {
    var random = SplitMix(seed: UInt64(limit))
    var (output, input) = (HTTP2Output(), HTTP2Input())
    output.clear()
    input.append(ByteBuffer(bytes: Self.settings))
    for round in 0..<500 {
      if round == 100 { output.apply(.init(headerTable: limit)) }
      var headers = HPACKHeaders()
      for name in [":path", ":scheme", "authorization", "content-type", "x", "apns-topic"] {
        let value =
          String(repeating: "v", count: .random(in: 0...3, using: &random) * 50)
          + "\(Int.random(in: 0...9, using: &random))"
        let indexing =
          [HPACKIndexing.indexable, .nonIndexable, .neverIndexed].randomElement(using: &random) ?? .indexable
        headers.add(name: name, value: value, indexing: indexing)
      }
      output.send(ProviderRequest(headers: headers, body: ByteBuffer()), on: 2 * round + 1)
      input.append(output.bytes)
      input.allowance.earn(FrameAllowance.perRequest)
      output.clear()
      var read: [HPACKHeaders] = []
      while let frame = try input.next() { if case .headers(let list, _, _) = frame { read.append(list) } }
      #expect(read == [headers])
    }
  }

  @Test func `Padding, priorities and what is added to the protocol are passed over`() throws {
    var bytes = ByteBuffer(bytes: Self.settings)
    bytes.writeBytes(Self.frame(2, 0, on: 1, [0, 0, 0, 0, 0]))
    bytes.writeBytes(Self.frame(0x77, 0xff, on: 9, [1, 2]))
    bytes.writeBytes(Self.frame(1, 0x8 | 0x20, on: 1, [2, 0, 0, 0, 0, 1, 0x88, 0, 0]))
    bytes.writeBytes(Self.frame(9, 0x4, on: 1, []))
    bytes.writeBytes(Self.frame(0, 0x8 | 0x1, on: 1, [1, 0x41, 0]))
    let frames = try Self.frames(bytes)
    guard frames.count == 3, case .settings = frames[0],
      case .headers([":status": "200"], on: 1, endsStream: false) = frames[1],
      case .data(ByteBuffer(string: "A"), on: 1, endsStream: true) = frames[2]
    else {
      Issue.record("\(frames)")
      return
    }
  }

  static let violations: [(String, [UInt8])] = [
    ("no settings first", frame(6, 0, on: 0, [0, 0, 0, 0, 0, 0, 0, 0])),
    ("a frame too long", settings + [0, 0x40, 1, 0, 0, 0, 0, 0, 1]),
    ("data for nobody", settings + frame(0, 0, on: 0, [1])),
    ("more padding than data", settings + frame(0, 8, on: 1, [2, 1])),
    ("padding without length", settings + frame(0, 8, on: 1, [])),
    ("no priority where one is due", settings + frame(1, 0x24, on: 1, [1, 2])),
    ("headers that make no sense", settings + frame(1, 4, on: 1, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff])),
    ("headers that do not go on", settings + frame(1, 0, on: 1, [0x88]) + frame(0, 0, on: 1, [])),
    ("headers that go on elsewhere", settings + frame(1, 0, on: 1, [0x88]) + frame(9, 4, on: 3, [])),
    ("the rest of nothing", settings + frame(9, 4, on: 1, [0x88])),
    (
      "headers without end",
      settings + frame(1, 0, on: 1, [])
        + Array((0..<4).map { _ in frame(9, 0, on: 1, .init(repeating: 0, count: 16_000)) }.joined())
    ),
    ("a reset of the wrong length", settings + frame(3, 0, on: 1, [0])),
    ("a reset of all", settings + frame(3, 0, on: 0, [0, 0, 0, 0])),
    ("settings of the wrong length", settings + frame(4, 0, on: 0, [0])),
    ("settings for one stream", settings + frame(4, 0, on: 1, [])),
    ("a window too wide", settings + frame(4, 0, on: 0, [0, 4, 0x80, 0, 0, 0])),
    ("a push", settings + frame(5, 4, on: 1, [0, 0, 0, 2])),
    ("a ping of the wrong length", settings + frame(6, 0, on: 0, [0])),
    ("a short farewell", settings + frame(7, 0, on: 0, [0, 0, 0, 0])),
    ("a window that does not grow", settings + frame(8, 0, on: 1, [0x80, 0, 0, 0])),
  ]

  @Test(arguments: violations) func `What no peer may say ends the connection`(name: String, bytes: [UInt8]) {
    #expect(throws: (any Error).self, "\(name)") { try Self.frames(ByteBuffer(bytes: bytes)) }
  }

  @Test func `The peer gets back what it has used of the connection's window`() throws {
    var input = HTTP2Input()
    input.append(ByteBuffer(bytes: Self.settings))
    for _ in 0..<3 {
      input.append(ByteBuffer(bytes: Self.frame(0, 8, on: 1, .init(repeating: 0, count: 15_000))))
    }
    for _ in 0..<3 { _ = try input.next() }
    #expect(input.credit() == nil)
    while try input.next() != nil {}
    #expect(input.credit() == 45_000)
    #expect(input.credit() == nil)
  }

  /// A megabyte of such took 77 ms.
  @Test(
    arguments: [
      (1, 4, [UInt8](repeating: 0x84, count: 400)), (1, 5, [0x88]), (9, 0, []),
      (6, 0, .init(repeating: 0, count: 8)),
      (4, 0, []), (4, 1, []), (8, 0, [0, 0, 0, 1]), (0, 0, []), (2, 0, [0, 0, 0, 0, 1]), (200, 0, []),
      (200, 0, .init(repeating: 0, count: 16_000)),
    ] as [(UInt8, UInt8, [UInt8])])
  func `Frames that bring nothing are not read for ever`(
    _ kind: UInt8, _ flags: UInt8, _ payload: [UInt8]
  ) throws {
    var input = HTTP2Input()
    input.append(ByteBuffer(bytes: Self.settings + (kind == 9 ? Self.frame(1, 0, on: 1, []) : [])))
    let stream: UInt32 = [4, 6].contains(kind) ? 0 : 1
    let frame = ByteBuffer(bytes: Self.frame(kind, flags, on: stream, payload))
    #expect(throws: HTTP2Input.Violation.self) {
      for _ in 0..<6000 {
        input.append(frame)
        while try input.next() != nil {}
      }
    }
  }

  @Test func `Frames that bring something are read for ever`() throws {
    var input = HTTP2Input()
    input.append(ByteBuffer(bytes: Self.settings))
    let frame = ByteBuffer(bytes: Self.frame(1, 5, on: 1, .init(repeating: 0x88, count: 40)))
    for _ in 0..<1000 {
      input.allowance.earn(FrameAllowance.perRequest)
      input.append(frame)
      while try input.next() != nil {}
    }
  }

  @Test func `A peer that asks and asks and takes no answer is left`() throws {
    let connector = Connector(host: "127.0.0.1", port: 1, tls: try Connector.tls(caFile: nil))
    let pool = HTTP2Pool(
      connector: connector, group: MultiThreadedEventLoopGroup.singleton, logger: Logger(label: "test"))
    let channel = EmbeddedChannel(handler: HTTP2ConnectionHandler(id: ConnectionID(number: 1), owner: pool))
    channel.connect(to: try SocketAddress(ipAddress: "127.0.0.1", port: 1), promise: nil)
    try channel.writeInbound(ByteBuffer(bytes: Self.settings))
    let ping = ByteBuffer(bytes: Self.frame(6, 0, on: 0, .init(repeating: 1, count: 8)))
    for _ in 0..<3000 { try channel.writeInbound(ping) }
    #expect(channel.isActive)
    channel.isWritable = false
    for _ in 0..<5000 where channel.isActive { try channel.writeInbound(ping) }
    #expect(!channel.isActive)
    _ = try channel.finish(acceptAlreadyClosed: true)
  }
}
