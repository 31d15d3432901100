import HTTPTypes
import NIOCore
import NIOEmbedded
import NIOHTTPTypes
import NIOPosix
import Testing

@testable import push_bouncer

@Suite struct ExpectContinueTests {
  private let path = "/api/v1/remotes/server/register"

  @Test func whoAsksFirstIsToldToGoOnAndThenAnswered() async throws {
    try await Workplace.test { place in
      try await place.serve { running in
        let port = try #require(running.port(of: "public"))
        let socket = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton).connect(
          host: "127.0.0.1", port: port
        ) { channel in
          channel.eventLoop.makeCompletedFuture {
            try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
          }
        }
        try await socket.executeThenClose { inbound, outbound in
          var answers = inbound.makeAsyncIterator()
          var text = ""
          func receive(until end: String) async throws -> String {
            while !text.contains(end) {
              guard let part = try await answers.next() else { throw ChannelError.eof }
              text += String(buffer: part)
            }
            defer { text = "" }
            return text
          }
          let head = "POST \(path) HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"
          for expectation in ["100-continue", "100-Continue"] {
            try await outbound.write(ByteBuffer(string: head + "Expect: \(expectation)\r\n\r\n"))
            // Nothing of the body is there yet, and nothing of it is on the way.
            #expect(try await receive(until: "\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n")
            try await outbound.write(ByteBuffer(string: "a=b"))
            #expect(try await receive(until: "}\n").hasPrefix("HTTP/1.1 400 Bad Request\r\n"))
          }
          try await outbound.write(ByteBuffer(string: head + "\r\na=b"))
          #expect(try await receive(until: "}\n").hasPrefix("HTTP/1.1 400 Bad Request\r\n"))
        }
      }
    }
  }

  @Test func inTheMiddleOfAnotherAnswerNothingIsSaid() throws {
    let channel = EmbeddedChannel(handler: ExpectContinue())
    let head = HTTPRequestPart.head(
      HTTPRequest(
        method: .post, scheme: "http", authority: "a", path: "/", headerFields: [.expect: "100-continue"]))
    let answer = HTTPResponsePart.head(HTTPResponse(status: .ok))
    try channel.writeInbound(head)
    #expect(
      try channel.readOutbound(as: HTTPResponsePart.self) == .head(HTTPResponse(status: .continue)))
    try channel.writeInbound(HTTPRequestPart.end(nil))
    try channel.writeOutbound(answer)
    try channel.writeInbound(head)
    try channel.writeOutbound(HTTPResponsePart.end(nil))
    #expect(try channel.readOutbound(as: HTTPResponsePart.self) == answer)
    #expect(try channel.readOutbound(as: HTTPResponsePart.self) == .end(nil))
    #expect(try channel.readOutbound(as: HTTPResponsePart.self) == nil)
    for _ in 0..<2 { #expect(try channel.readInbound(as: HTTPRequestPart.self) != nil) }
  }
}
