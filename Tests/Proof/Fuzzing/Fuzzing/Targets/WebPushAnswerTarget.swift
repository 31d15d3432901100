import NIOCore
import NIOEmbedded
import NIOHTTP1

@testable import HTTPClient
@testable import Providers

/// A push service's answer over HTTP/1.1 (the target `http2` covers HTTP/2). It must read the same in parts.
enum WebPushAnswerTarget: FuzzTarget {
  static let name = "webpush-answer"
  // In parts of one byte, each byte passes through a channel.
  static let timePerByte = 20_000.0

  static func run(_ bytes: [UInt8]) throws {
    let whole = try answers(bytes, by: max(bytes.count, 1))
    if let length = partLength(of: bytes, among: 1, 13) {
      try check(try answers(bytes, by: length) == whole, "parts of \(length) bytes are read as the whole is")
    }
  }

  private static func answers(_ bytes: [UInt8], by length: Int) throws -> [String] {
    let owner = RecordingOwner()
    let handlers = HTTP1ConnectionHandler.handlers(ConnectionID(number: 1), owner, .init())
    let channel = EmbeddedChannel()
    try channel.pipeline.syncOperations.addHandlers(handlers)
    let handler = try channel.pipeline.syncOperations.handler(type: HTTP1ConnectionHandler.self)
    try channel.exchange(bytes, by: length, requests: 1) { handler.start($0) }
    try owner.checkEndings(of: 1)
    return owner.responses.map { response in
      "\(response.status) \(response.headers.map { "\($0.name): \($0.value)" }) \(Array(response.body.readableBytesView))"
    }
  }
}
