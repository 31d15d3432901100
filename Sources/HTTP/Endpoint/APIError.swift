package import HTTPTypes
package import Hummingbird

/// A refusal in Zulip's envelope: `{"result":"error","msg",...,"code"}`
/// (`Documentation/Protocols/Zulip.md` 2.2).
package struct APIError: Error, HTTPResponseError, Sendable {
  /// HTTP's status.
  package let status: HTTPResponse.Status
  /// The name that programs go by.
  package let code: String
  /// The sentence that people read.
  package let message: String
  /// What else the body says, between message and code.
  package let fields: [JSON.Object.Member]
  /// Headers that go along.
  package let headers: HTTPFields

  /// 400: what the caller sent is wrong.
  package init(code: String = "BAD_REQUEST", _ message: String, fields: [JSON.Object.Member] = []) {
    self.init(.badRequest, code: code, message, fields: fields)
  }

  /// A refusal with any status.
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

  /// A required parameter that was not sent.
  package static func missing(_ name: String) -> APIError {
    APIError(
      code: "REQUEST_VARIABLE_MISSING", "Missing '\(name)' argument",
      fields: [.init("var_name", .string(name))])
  }

  /// 401 that asks for Basic credentials.
  package static func unauthorized(_ message: String) -> APIError {
    APIError(
      .unauthorized, code: "UNAUTHORIZED", message, headers: [.wwwAuthenticate: "Basic realm=\"zulip\""])
  }

  /// 503: what was asked may work in `seconds`. For all that passes by itself.
  package static func unavailable(_ message: String, retryAfter seconds: Int) -> APIError {
    APIError(
      .serviceUnavailable, code: "SERVICE_UNAVAILABLE", message, headers: [.retryAfter: String(seconds)])
  }

  /// 503 for what will pass.
  package static var tryAgainLater: APIError {
    .unavailable("Service temporarily unavailable", retryAfter: 5)
  }

  /// 500: a fault of ours, of which the caller learns nothing.
  package static var internalError: APIError {
    APIError(.internalServerError, code: "INTERNAL_SERVER_ERROR", "Internal server error")
  }

  /// The answer.
  package var response: Response {
    Envelope.response(
      status,
      [.init("result", "error"), .init("msg", .string(message))] + fields + [.init("code", .string(code))],
      headers: headers)
  }

  /// The answer, for Hummingbird.
  package func response(from request: Request, context: some RequestContext) -> Response { response }
}
