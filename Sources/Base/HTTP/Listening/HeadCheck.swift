import NIOCore
import NIOHTTP1

/// Refuses a head whose `Host` does not say for whom the request is, and marks the requests after which the connection has
/// to close. It comes before the conversion to `HTTPRequest`, which keeps neither the version nor the first `Host`.
final class HeadCheck: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias InboundOut = HTTPServerRequestPart

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard case .head(var head) = unwrapInboundIn(data) else { return context.fireChannelRead(data) }
    guard Self.isAddressed(head) else {
      // Nothing is read after that, and the answer is 400.
      return context.fireErrorCaught(HTTPParserError.invalidHeaderToken)
    }
    // HTTP/1.0 may keep a connection open, but does not delimit a body in chunks: a proxy that took the body's end for
    // another place would send its next client this one's answer (RFC 9112 6.1).
    if head.version != .http1_1 || !head.isKeepAlive {
      head.headers.replaceOrAdd(name: "connection", value: "close")
    }
    context.fireChannelRead(wrapInboundOut(.head(head)))
  }

  /// Whether there is one `Host` that can be one; HTTP/1.0 may have none (RFC 9112 3.2). An empty one is none.
  private static func isAddressed(_ head: HTTPRequestHead) -> Bool {
    var hosts = 0
    for (name, value) in head.headers where name.utf8.count == 4 && name.dropping(prefix: "host") != nil {
      guard value.utf8.allSatisfy(isOfHost) else { return false }
      if !value.isEmpty { hosts += 1 }
    }
    return hosts == 1 || hosts == 0 && head.version != .http1_1
  }

  private static func isOfHost(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "/"), UInt8(ascii: "?"), UInt8(ascii: "#"), UInt8(ascii: "@"), UInt8(ascii: "\\"),
      UInt8(ascii: ","):
      false
    default: (0x21...0x7E).contains(byte)
    }
  }
}
