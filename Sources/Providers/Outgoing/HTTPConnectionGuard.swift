package import AsyncHTTPClient
internal import Foundation
internal import NIOCore
internal import NIOHTTP1
internal import NIOSSL

extension HTTPClient.Configuration {
  /// Speaks HTTP/1.1 alone, sends nothing to a host whose certificate is not its own, and reads nothing more from one that
  /// answers something else than HTTP. For calls to hosts that are not this one.
  package mutating func guardConnections() {
    httpVersion = .http1Only
    // Called before a connection is used for its first request.
    http1_1ConnectionDebugInitializer = { channel in
      channel.eventLoop.makeCompletedFuture {
        do {
          let pipeline = channel.pipeline.syncOperations
          let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPResponseDecoder>.self)
          try pipeline.addHandler(HTTPConnectionGuard(), position: .after(decoder))
        } catch {
          // Nobody else knows the connection yet.
          channel.close(promise: nil)
          throw error
        }
      }
    }
  }
}

/// Stands between AsyncHTTPClient and what reads and writes HTTP.
final class HTTPConnectionGuard: ChannelDuplexHandler {
  typealias InboundIn = HTTPClientResponsePart
  typealias InboundOut = HTTPClientResponsePart
  typealias OutboundIn = HTTPClientRequestPart
  typealias OutboundOut = HTTPClientRequestPart

  /// The host left HTTP, which nobody had asked for.
  struct SwitchedProtocols: Error {}

  private var hasEnded = false

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    if case .head(let head) = unwrapOutboundIn(data), !Self.isProven(head, on: context) {
      hasEnded = true
      // The client is about to send the rest, and does not expect to hear of it before.
      context.eventLoop.assumeIsolated().execute {
        context.fireErrorCaught(NIOSSLExtraError.failedToValidateHostname)
        context.closeAtOnce()
      }
    }
    guard !hasEnded else {
      // Told sooner it would hide why.
      if let promise {
        context.channel.closeFuture.whenComplete { _ in promise.fail(ChannelError.ioOnClosedChannel) }
      }
      return
    }
    context.write(data, promise: promise)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !hasEnded else { return }
    // What follows would be kept by the decoder, however much it is.
    if case .head(let head) = unwrapInboundIn(data), head.status == .switchingProtocols {
      return errorCaught(context: context, error: SwitchedProtocols())
    }
    context.fireChannelRead(data)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    context.fireErrorCaught(error)
    guard !hasEnded else { return }
    hasEnded = true
    context.closeAtOnce()
  }

  func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
    guard mode == .all else { return context.close(mode: mode, promise: promise) }
    hasEnded = true
    context.closeAtOnce(promise: promise)
  }

  /// Whether the request goes to a host that the certificate is of; in clear there is none.
  private static func isProven(_ head: HTTPRequestHead, on context: ChannelHandlerContext) -> Bool {
    guard let tls = try? context.pipeline.syncOperations.handler(type: NIOSSLClientHandler.self) else {
      return true
    }
    guard let certificate = tls.peerCertificate, let host = host(head.headers) else { return false }
    return certificate.proves(host)
  }

  /// Without port and brackets.
  private static func host(_ headers: HTTPHeaders) -> String? {
    let fields = headers["host"]
    guard fields.count == 1, let authority = fields.first else { return nil }
    if authority.utf8.first == UInt8(ascii: "[") {
      return authority.firstIndex(of: "]").map {
        String(authority[authority.index(after: authority.startIndex)..<$0])
      }
    }
    return String(authority.prefix { $0 != ":" })
  }
}
