import NIOCore
import NIOHPACK
import NIOHTTP2

/// A request as a service sees it, whichever HTTP brought it.
struct Request: Sendable {
  var method: String
  /// Path and query.
  var path: String
  /// Which host and port it was addressed to: `:authority`, or HTTP/1.1's `Host`.
  var authority = ""
  /// Names in lower case, without pseudo-headers.
  var headers: HPACKHeaders
  var body = ByteBuffer()

  /// The path without the query.
  var pathOnly: Substring { path.prefix { $0 != "?" } }
}

/// An answer.
struct Reply: Sendable {
  var status: Int
  var headers: [(name: String, value: String)] = []
  var body = ByteBuffer()
  /// Filler follows the body, for as long as the client reads.
  var isEndless = false

  static func json(_ status: Int, _ body: String) -> Reply {
    Reply(
      status: status, headers: [("content-type", "application/json; charset=UTF-8")],
      body: ByteBuffer(string: body))
  }

  /// What a proxy or an edge server says where the service itself would have said JSON.
  static func html(_ status: Int) -> Reply {
    Reply(
      status: status, headers: [("content-type", "text/html; charset=UTF-8")],
      body: ByteBuffer(string: "<!DOCTYPE html><html><head><title>Error \(status)</title></head></html>\n"))
  }
}

extension Reply {
  /// What an endless answer goes on with.
  static let filler = ByteBuffer(repeating: UInt8(ascii: " "), count: 16384)
}

/// What a listener does with a request.
enum Action: Sendable {
  case answer(Reply, after: TimeAmount = .zero)
  /// An answer that has to be waited for.
  case later(@Sendable () async -> Reply)
  case reset(HTTP2ErrorCode)
  case dropConnection
  case ignore
  case freezeConnection
}

/// What one listener serves.
protocol Responder: Sendable {
  /// Called on the connection's event loop, once the request is there whole.
  func respond(to request: Request, on connection: Connection) -> Action
  /// A connection that may push has been opened.
  func opened(_ connection: Connection)
}
