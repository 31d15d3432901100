import Foundation
import NIOCore
import NIOHTTP1
import NIOHTTP2
import NIOPosix
import ProviderSimulator
import TestSupport
import Testing

/// HEAD, which is answered as GET without the content.
@Suite(.client) struct HeadTests {
  private let client = Fixture<Client>.current

  @Test(arguments: ["/_control/counts", "/_control/nothing", "/token", "/nothing"])
  func `On a connection of HTTP 1 the next answer follows at once`(_ path: String) async throws {
    let received = Received()
    let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(received) }
      }
      .connect(host: "127.0.0.1", port: client.simulator.fcmPort).get()
    let text = ["HEAD", "GET"].map { method in
      "\(method) \(path) HTTP/1.1\r\nHost: localhost\r\n\(method == "GET" ? "Connection: close\r\n" : "")\r\n"
    }
    try await channel.writeAndFlush(ByteBuffer(string: text.joined()))
    try? await channel.closeFuture.get()
    let answers = try await channel.eventLoop.submit { received.text }.get()
    let heads = answers.split(separator: "\r\n\r\n", maxSplits: 1)
    try #require(heads.count == 2)
    #expect(heads[1].hasPrefix("HTTP/1.1 "), "\(answers)")
    func line(_ beginning: String, of text: Substring) -> Substring? {
      text.split(separator: "\r\n").first { $0.lowercased().hasPrefix(beginning) }
    }
    for beginning in ["http/1.1", "content-length"] {
      #expect(line(beginning, of: heads[0]) == line(beginning, of: heads[1]), "\(answers)")
    }
  }

  @Test(arguments: ["/nothing", "/3/device/\(Client.token)"])
  func `On a stream of HTTP 2 the head is all`(_ path: String) async throws {
    let answer = try await client.push(payload: "", method: .HEAD, path: path)
    let usual = try await client.push(payload: "", method: .GET, path: path)
    #expect(answer.status == usual.status && answer.body.isEmpty && !usual.body.isEmpty)
    let frames = try await FrameClient(client.simulator)
    frames.ask("HEAD", path, stream: 1)
    let isEnd = await frames.next { frame in
      guard frame.streamID == 1, case .headers(let headers) = frame.payload else { return nil as Bool? }
      return headers.endStream
    }
    #expect(isEnd == true)
    await frames.close()
  }

  /// Touched by the channel's loop only.
  private final class Received: ChannelInboundHandler, @unchecked Sendable {
    typealias InboundIn = ByteBuffer
    var text = ""
    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      text += String(buffer: unwrapInboundIn(data))
    }
    func errorCaught(context: ChannelHandlerContext, error: any Error) {}
  }
}
