import Basics
package import HTTPTypes
package import Hummingbird
package import Logging
import NIOCore
import NIOHTTP1

/// An error answer. In JSON, as this program's own APIs and Zulip's have it (`Documentation/Protocols/Zulip.md` 2.2), it is
/// `{"result":"error","msg",...,"code"}`; Nextcloud's wires and the pages give it forms of their own.
package struct APIError: Error, HTTPResponseError, Sendable {
  package let status: HTTPResponse.Status
  /// Machine-readable.
  package let code: String
  /// A sentence for people.
  package let message: String
  /// Members of the body between message and code.
  package let fields: [JSON.Object.Member]
  package let headers: HTTPFields

  /// 400: the request is wrong.
  package init(code: String = "BAD_REQUEST", _ message: String, fields: [JSON.Object.Member] = []) {
    self.init(.badRequest, code: code, message, fields: fields)
  }

  package init(
    _ status: HTTPResponse.Status, code: String = "BAD_REQUEST", _ message: String,
    fields: [JSON.Object.Member] = [], headers: HTTPFields = [:]
  ) {
    self.status = status
    self.code = code
    self.message = message
    self.fields = fields
    self.headers = headers
  }

  package static func missing(_ name: String) -> APIError {
    APIError(
      code: "REQUEST_VARIABLE_MISSING", "Missing '\(name)' argument",
      fields: [.init("var_name", .string(name))])
  }

  /// 503, for a condition that passes by itself.
  package static func unavailable(_ message: String, retryAfter seconds: Int) -> APIError {
    APIError(
      .serviceUnavailable, code: "SERVICE_UNAVAILABLE", message, headers: [.retryAfter: String(seconds)])
  }

  /// 429, for what is too much at present.
  package static func tooMany(_ message: String, retryAfter seconds: Double) -> APIError {
    APIError(.tooManyRequests, message, headers: [.retryAfter: String(Int(seconds.rounded(.up)))])
  }

  package static var tryAgainLater: APIError {
    .unavailable("Service temporarily unavailable", retryAfter: 5)
  }

  /// 500: a fault of this program. Tells the caller nothing about it.
  package static var internalError: APIError {
    APIError(.internalServerError, code: "INTERNAL_SERVER_ERROR", "Internal server error")
  }

  package var response: Response {
    Envelope.response(
      status,
      [.init("result", "error"), .init("msg", .string(message))] + fields + [.init("code", .string(code))],
      headers: headers)
  }

  package func response(from request: Request, context: some RequestContext) -> Response { response }
}

extension APIError {
  /// The response to any error. Logs the faults of this program.
  package init(_ error: any Error, logger: Logger) {
    switch error {
    case let error as APIError:
      self = error
    case is NIOTooManyBytesError:
      self.init(.contentTooLarge, code: "PAYLOAD_TOO_LARGE", "Payload too large")
    case is BodyBudget.Exceeded:
      self = .tryAgainLater
    case let error as HTTPError where error.status == .notFound:
      self.init(.notFound, "Not found")
    case is HTTPParserError:
      self.init(.badRequest, "Malformed request")
    case let error as any StorageFailure:
      logger.error("database failed", metadata: ["code": "\(error.name)", "reason": "\(error.message)"])
      self = error.isTransient ? .tryAgainLater : .internalError
    case is CancellationError:
      self = .unavailable("Shutting down", retryAfter: 5)
    case let error as any HTTPResponseError:
      self.init(error.status, error.status.reasonPhrase)
    default:
      // Logs the error's type only, since its text could contain a value.
      logger.error("request failed", metadata: ["error": "\(type(of: error))"])
      self = .internalError
    }
  }
}

/// Answers in JSON: compact, with a newline at the end, not to be cached.
package enum Envelope {
  private static let headers: HTTPFields = [
    .contentType: "application/json",
    .cacheControl: "max-age=0, no-cache, no-store, must-revalidate, private",
  ]

  /// 200, as this program's own APIs and Zulip's have it: `{"result":"success","msg":"",...}`.
  package static func success(_ members: [JSON.Object.Member] = []) -> Response {
    response(.ok, [.init("result", "success"), .init("msg", "")] + members)
  }

  /// Any status, with exactly these members.
  package static func response(
    _ status: HTTPResponse.Status, _ members: [JSON.Object.Member], headers additional: HTTPFields = [:]
  ) -> Response {
    var bytes = JSON.object(JSON.Object(members)).bytes
    bytes.append(UInt8(ascii: "\n"))
    var headers = headers
    headers.append(contentsOf: additional)
    return Response(
      status: status, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes)))
  }
}
