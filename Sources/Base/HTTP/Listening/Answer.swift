import HTTPTypes
import Hummingbird
import NIOCore
import NIOHTTP1

/// The head of an answer, as it is sent (RFC 9112). How the content ends, and whether the connection goes on, is said here and by
/// nobody else.
struct AnswerHead {
  let status: HTTPResponse.Status
  let fields: HTTPFields

  /// Whether content may follow (RFC 9110 6.4.1).
  var mayHaveContent: Bool {
    status.kind != .informational && status != .noContent && status != .notModified
  }

  /// Whether the head says where the answer ends; otherwise it ends with the connection (RFC 9112 6.3).
  var saysLength: Bool { !mayHaveContent || fields.contains(.contentLength) }

  /// Writes it. Neither names nor values of fields can have line ends: `HTTPField` replaces them.
  ///
  /// - Parameter isLast: whether the connection closes after the answer.
  func write(to buffer: inout ByteBuffer, date: String, isLast: Bool) {
    let status = HTTPResponseStatus(statusCode: status.code, reasonPhrase: status.reasonPhrase)
    buffer.writeString("HTTP/1.1 \(status.code) \(status.reasonPhrase)\r\n")
    for field in fields {
      switch field.name {
      case .connection, .date, .transferEncoding: continue
      case .contentLength where !mayHaveContent: continue
      default: buffer.writeField(field.name.rawName, field.value)
      }
    }
    buffer.writeField("Date", date)
    if isLast { buffer.writeField("Connection", "close") }
    buffer.writeStaticString("\r\n")
  }
}

extension ByteBuffer {
  fileprivate mutating func writeField(_ name: String, _ value: String) {
    writeString(name)
    writeStaticString(": ")
    writeString(value)
    writeStaticString("\r\n")
  }
}

/// Writes the content of an answer: with its head in one buffer, unless it is long.
struct AnswerWriter: ResponseBodyWriter {
  let connection: NIOLoopBound<HTTPConnection>
  let mayHaveContent: Bool
  /// What is to be sent next.
  var bytes: ByteBuffer

  /// Bytes that are gathered before they are sent.
  private static let most = 8 << 10

  mutating func write(_ content: ByteBuffer) async throws {
    guard mayHaveContent else { return }
    bytes.writeImmutableBuffer(content)
    guard bytes.readableBytes > Self.most else { return }
    try await connection.value.write(bytes)
    bytes = ByteBuffer()
  }

  /// - Parameter trailers: are not sent.
  consuming func finish(_ trailers: HTTPFields?) throws {
    try connection.value.endAnswer(with: bytes)
  }
}
