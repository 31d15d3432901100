internal import Delivery
internal import HTTP
package import HTTPTypes
internal import Hummingbird
internal import Logging
internal import NIOCore
internal import NIOHTTP1
internal import SQL

/// A refusal of the proxy. It never has the keys `unknown` and `failed`: servers take any answer that has both
/// for one about their devices.
package struct ProxyError: Error {
  package let status: HTTPResponse.Status
  /// What is wrong and what would mend it.
  let message: String
  /// Whole seconds after which it may work.
  let retryAfter: Int?

  init(_ status: HTTPResponse.Status, _ message: String, retryAfter: Int? = nil) {
    self.status = status
    self.message = message
    self.retryAfter = retryAfter
  }

  /// 400: what the caller sent is wrong.
  init(_ message: String) {
    self.init(.badRequest, message)
  }

  /// 503 for what will pass; it changes nothing about the devices.
  static var tryAgainLater: ProxyError {
    ProxyError(
      .serviceUnavailable, "The service cannot take this now. Try again in a moment.", retryAfter: 5)
  }

  /// For apps: `{"message": ...}`.
  var response: Response {
    Envelope.response(status, [.init("message", .string(message))], headers: headers)
  }

  /// For servers: plain text, as they show their admin a body only if it is no JSON; and 503 where others say
  /// 429, which has a server tell its admin that somebody else's limit was reached.
  var plainResponse: Response {
    var headers = headers
    headers[.contentType] = "text/plain; charset=utf-8"
    return Response(
      status: status == .tooManyRequests ? .serviceUnavailable : status, headers: headers,
      body: ResponseBody(byteBuffer: ByteBuffer(string: message + "\n")))
  }

  private var headers: HTTPFields { retryAfter.map { [.retryAfter: String($0)] } ?? [:] }

  /// Puts anything that a handler may throw into the proxy's own words.
  init(_ error: any Error, logger: Logger) {
    switch error {
    case let error as ProxyError: self = error
    case is NIOTooManyBytesError:
      self.init(.contentTooLarge, "The body is too large. Send fewer notifications at a time.")
    case is HTTPParserError:
      self.init("The request is malformed.")
    case let error as DatabaseError:
      // Its text names tables and constraints, never values.
      logger.error("database failed", metadata: ["code": "\(error.code)", "reason": "\(error.message)"])
      self = .tryAgainLater
    case is Outbox.Full, is BodyBudget.Exceeded, is CancellationError:
      self = .tryAgainLater
    default:
      // The type names the fault; the text could hold a value.
      logger.error("request failed", metadata: ["error": "\(DatabaseError.name(of: error))"])
      self.init(.internalServerError, "Internal server error")
    }
  }
}
