package import Foundation
package import HTTPTypes
package import Hummingbird
package import Logging
import NIOCore
import NIOHTTP1
import SQL

/// An error response in Zulip's envelope: `{"result":"error","msg",...,"code"}`
/// (`Documentation/Protocols/Zulip.md` 2.2).
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

  package static func unauthorized(_ message: String) -> APIError {
    APIError(
      .unauthorized, code: "UNAUTHORIZED", message, headers: [.wwwAuthenticate: "Basic realm=\"zulip\""])
  }

  /// 503, for a condition that passes by itself.
  package static func unavailable(_ message: String, retryAfter seconds: Int) -> APIError {
    APIError(
      .serviceUnavailable, code: "SERVICE_UNAVAILABLE", message, headers: [.retryAfter: String(seconds)])
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
    case let error as DatabaseError:
      // Its text names tables and constraints, never values.
      logger.error("database failed", metadata: ["code": "\(error.code)", "reason": "\(error.message)"])
      self = error.isTransient ? .tryAgainLater : .internalError
    case is CancellationError:
      self = .unavailable("Shutting down", retryAfter: 5)
    case let error as any HTTPResponseError:
      self.init(error.status, error.status.reasonPhrase)
    default:
      // Logs the error's type only, since its text could contain a value.
      logger.error("request failed", metadata: ["error": "\(DatabaseError.name(of: error))"])
      self = .internalError
    }
  }
}

/// Responses in the form that Zulip's clients and servers expect: `{"result", "msg", ...}`, compact, with a
/// newline at the end (`Documentation/Protocols/Zulip.md` 2.2).
package enum Envelope {
  private static let headers: HTTPFields = [
    .contentType: "application/json",
    .cacheControl: "max-age=0, no-cache, no-store, must-revalidate, private",
  ]

  package static func success(_ members: [JSON.Object.Member] = []) -> Response {
    response(.ok, [.init("result", "success"), .init("msg", "")] + members)
  }

  /// Any status, with exactly these members; not to be cached.
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

/// Constants that bouncer and server must agree on.
package enum Zulip {
  /// The text that a phone shows until its app has decrypted the notification.
  package static let placeholder = "New notification"
  /// The maximum number of messages in one removal; the newest are kept.
  package static let maximumRemovals = 200
  /// The seconds after which a device's registration that has not arrived is given up.
  package static let registrationLifetime: TimeInterval = 86_400
}

/// Errors with the same text in bouncer and server, and the codes that the other side acts on.
extension APIError {
  package enum Code {
    package static let missingRealm = "MISSING_REMOTE_REALM"
    package static let anothersRealm = "REMOTE_REALM_SERVER_MISMATCH_ERROR"
    package static let requestExpired = "REQUEST_EXPIRED"
    package static let invalidPublicKey = "INVALID_BOUNCER_PUBLIC_KEY"
    package static let unknownLegacyDevice = "INVALID_REMOTE_PUSH_DEVICE_TOKEN"
  }

  package static var tokenDoesNotExist: APIError { APIError("Token does not exist") }

  package static func invalidFormat(_ name: String) -> APIError { APIError("\(name) has invalid format") }
}

extension APIError {
  /// A code from another service's answer; `BAD_REQUEST` if the text is missing or does not have the form of a code.
  package static func code(from text: String?) -> String {
    guard let text, (1...64).contains(text.utf8.count),
      text.utf8.allSatisfy({
        (0x41...0x5A).contains($0) || (0x30...0x39).contains($0) || $0 == UInt8(ascii: "_")
      })
    else { return "BAD_REQUEST" }
    return text
  }
}
