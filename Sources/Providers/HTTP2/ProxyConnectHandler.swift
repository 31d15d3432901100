import Foundation
import NIOCore

/// An HTTP proxy that connects us through (RFC 9110 section 9.3.6).
struct Proxy: Sendable, Hashable {
  let host: String
  let port: Int
  /// `user:password`, where the proxy wants it.
  let userInfo: String?

  /// From `http://[user:password@]host:port`; nil for any other URL.
  init?(_ url: URL) {
    guard url.scheme == "http", let host = url.host(percentEncoded: false), !host.isEmpty else { return nil }
    self.host = host
    self.port = url.port ?? 80
    self.userInfo = url.user(percentEncoded: false).map {
      "\($0):\(url.password(percentEncoded: false) ?? "")"
    }
  }
}

/// Asks the proxy for the way through, and leaves the pipeline when it is open.
final class ProxyConnectHandler: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer
  typealias OutboundOut = ByteBuffer

  enum Failure: Error {
    case refused, tooLong, closed, timeout
  }

  private static let longestHead = 8192
  private static let timeout = TimeAmount.seconds(10)

  private let request: String
  private var done: ((Result<Void, any Error>) -> Void)?
  private var head = ByteBuffer()

  /// - Parameter done: called once, on the event loop; on success it adds the handlers that follow.
  init(proxy: Proxy, host: String, port: Int, done: @escaping (Result<Void, any Error>) -> Void) {
    let target = host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    let authorization = proxy.userInfo.map {
      "Proxy-Authorization: Basic \(Data($0.utf8).base64EncodedString())\r\n"
    }
    self.request = "CONNECT \(target) HTTP/1.1\r\nHost: \(target)\r\n\(authorization ?? "")\r\n"
    self.done = done
  }

  func channelActive(context: ChannelHandlerContext) {
    context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: request)), promise: nil)
    context.eventLoop.assumeIsolated().scheduleTask(in: Self.timeout) {
      self.finish(.failure(Failure.timeout))
    }
    context.fireChannelActive()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard done != nil else { return context.fireChannelRead(data) }
    head.writeImmutableBuffer(unwrapInboundIn(data))
    guard let end = head.readableBytesView.firstRange(of: Array("\r\n\r\n".utf8)) else {
      if head.readableBytes > Self.longestHead { finish(.failure(Failure.tooLong)) }
      return
    }
    let status = String(buffer: head).prefix { $0 != "\r\n" }.split(separator: " ")
    guard status.count >= 2, status[0].hasPrefix("HTTP/1."), status[1].count == 3, status[1].hasPrefix("2")
    else {
      return finish(.failure(Failure.refused))
    }
    head.moveReaderIndex(to: end.upperBound)
    finish(.success(()))
    if head.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(head)) }
    context.pipeline.syncOperations.removeHandler(self, promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    finish(.failure(Failure.closed))
    context.fireChannelInactive()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    finish(.failure(error))
    context.fireErrorCaught(error)
  }

  private func finish(_ result: Result<Void, any Error>) {
    done?(result)
    done = nil
  }
}
