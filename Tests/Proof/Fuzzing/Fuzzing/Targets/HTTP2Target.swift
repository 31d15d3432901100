import NIOCore
import NIOEmbedded
import NIOHPACK

@testable import HTTPClient
@testable import Providers

/// A provider's bytes over HTTP/2: read in one piece and in several, and with requests under way, each of
/// which must end exactly once.
enum HTTP2Target: FuzzTarget {
  static let name = "http2"
  // With header compression, one byte can stand for a whole header field.
  static let timePerByte = 20_000.0

  static func run(_ bytes: [UInt8]) throws {
    let whole = read(bytes, by: max(bytes.count, 1))
    if let length = partLength(of: bytes, among: 1, 7, 1000) {
      try check(read(bytes, by: length) == whole, "parts of \(length) bytes are read as the whole is")
    }
    try answer(bytes, by: bytes.count.isMultiple(of: 2) ? max(bytes.count, 1) : bytes.count / 2 + 1)
  }

  /// The frames that the bytes are read as, up to the first error.
  private static func read(_ bytes: [UInt8], by length: Int) -> [String] {
    var (input, frames, rest) = (HTTP2Input(), [String](), bytes[...])
    while !rest.isEmpty {
      input.append(ByteBuffer(bytes: rest.prefix(length)))
      rest = rest.dropFirst(length)
      do {
        while let frame = try input.next() { frames.append(summary(frame)) }
      } catch {
        return frames + ["violation"]
      }
      _ = input.credit()
    }
    return frames
  }

  private static func summary(_ frame: HTTP2Input.Frame) -> String {
    switch frame {
    case .headers(let headers, let stream, let isEnd):
      "headers \(headers.map { "\($0.name): \($0.value)" }) \(stream) \(isEnd)"
    case .data(let data, let stream, let isEnd): "data \(Array(data.readableBytesView)) \(stream) \(isEnd)"
    default: "\(frame)"
    }
  }

  private static func answer(_ bytes: [UInt8], by length: Int) throws {
    let owner = RecordingOwner()
    let handler = HTTP2ConnectionHandler(id: ConnectionID(number: 1), owner: owner)
    let channel = EmbeddedChannel(handler: handler)
    try channel.exchange(bytes, by: length, requests: 3) { handler.start($0) }
    try owner.checkEndings(of: 3)
  }
}

extension EmbeddedChannel {
  /// Sends requests, feeds the peer's bytes to the connection, and closes it.
  func exchange(
    _ bytes: [UInt8], by length: Int, requests: Int, start: ([PendingRequest]) -> Void
  ) throws {
    connect(to: try SocketAddress(ipAddress: "127.0.0.1", port: 1), promise: nil)
    let headers: HPACKHeaders = [
      ":method": "POST", ":scheme": "https", ":authority": "a.example", ":path": "/3/device/a",
    ]
    start(
      (0..<requests).map { number in
        // Larger than the initial flow-control window.
        PendingRequest(.init(headers: headers, body: ByteBuffer(repeating: 7, count: 40_000 * number)))
      })
    var rest = bytes[...]
    while !rest.isEmpty, isActive {
      // What a handler refuses ends its connection, which is seen there.
      _ = try? writeInbound(ByteBuffer(bytes: rest.prefix(length)))
      rest = rest.dropFirst(length)
    }
    _ = try? finish(acceptAlreadyClosed: true)
  }
}
