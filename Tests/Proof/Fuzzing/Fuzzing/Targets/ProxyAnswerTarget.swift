import NIOCore

@testable import NextcloudServer

/// Answers of a Nextcloud push proxy: a status and a body.
enum ProxyAnswerTarget: FuzzTarget {
  static let name = "proxy-answer"

  static func run(_ bytes: [UInt8]) throws {
    let text = HTTPText(bytes)
    let answer = ProxyAnswer(status: text.status, body: ByteBuffer(bytes: text.body))
    switch answer {
    case .accepted: try check(text.status < 500, "who is broken has taken nothing")
    case .acceptedWithoutCounts: try check((200..<300).contains(text.status), "who refuses has taken nothing")
    case .refused: try check(text.status < 500, "who is broken refuses nothing for good")
    case .unavailable: try check(text.status >= 500, "only who is broken may take it later")
    }
  }
}
