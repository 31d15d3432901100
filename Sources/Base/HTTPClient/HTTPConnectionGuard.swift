package import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import NIOSSL

extension HTTPClient.Configuration {
  /// Has connections speak only HTTP/1.1, check that the certificate proves the requested host, and close if the answer is
  /// not HTTP.
  package mutating func guardConnections() {
    httpVersion = .http1Only
    // AsyncHTTPClient calls this before the connection's first request.
    http1_1ConnectionDebugInitializer = { channel in
      channel.eventLoop.makeCompletedFuture {
        do {
          let pipeline = channel.pipeline.syncOperations
          let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPResponseDecoder>.self)
          let allowance = HeadAllowance()
          try pipeline.addHandler(allowance, position: .before(decoder))
          try pipeline.addHandler(HTTPConnectionGuard(allowance), position: .after(decoder))
        } catch {
          // The connection is not in use yet.
          channel.close(promise: nil)
          throw error
        }
      }
    }
  }
}

/// A handler between AsyncHTTPClient and the HTTP codec.
final class HTTPConnectionGuard: ChannelDuplexHandler {
  typealias InboundIn = HTTPClientResponsePart
  typealias InboundOut = HTTPClientResponsePart
  typealias OutboundIn = HTTPClientRequestPart
  typealias OutboundOut = HTTPClientRequestPart

  /// The host switched protocols (101) unasked.
  struct SwitchedProtocols: Error {}

  private let allowance: HeadAllowance
  private var hasEnded = false

  init(_ allowance: HeadAllowance) { self.allowance = allowance }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    let head: HTTPRequestHead? = if case .head(let head) = unwrapOutboundIn(data) { head } else { nil }
    if head != nil { allowance.requestBegan() }
    if let head, !Self.isProven(head, on: context) {
      hasEnded = true
      // The client is still sending and does not expect an error before it has finished.
      context.eventLoop.assumeIsolated().execute {
        context.fireErrorCaught(NIOSSLExtraError.failedToValidateHostname)
        context.closeAtOnce()
      }
    }
    guard !hasEnded else {
      // Failing it earlier would hide the reason.
      if let promise {
        context.channel.closeFuture.whenComplete { _ in promise.fail(ChannelError.ioOnClosedChannel) }
      }
      return
    }
    context.write(data, promise: promise)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !hasEnded else { return }
    if case .head(let head) = unwrapInboundIn(data) {
      // The decoder would buffer all that follows, without a limit.
      if head.status == .switchingProtocols {
        return errorCaught(context: context, error: SwitchedProtocols())
      }
      if head.status.code >= 200 { allowance.headArrived() }
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

  /// Whether the certificate proves the request's host. Always true for a connection without TLS.
  private static func isProven(_ head: HTTPRequestHead, on context: ChannelHandlerContext) -> Bool {
    guard let tls = try? context.pipeline.syncOperations.handler(type: NIOSSLClientHandler.self) else {
      return true
    }
    guard let certificate = tls.peerCertificate, let host = host(head.headers) else { return false }
    return certificate.proves(host)
  }

  /// The request's host, without port and brackets.
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
