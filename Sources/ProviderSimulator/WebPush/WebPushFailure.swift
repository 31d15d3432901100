/// An answer of the push service that is no 201.
struct WebPushFailure: Error {
  let status: Int
  /// A word for programs and for the record.
  let reason: String
  /// What is wrong, for whoever has to mend it.
  let message: String

  init(_ status: Int, _ reason: String, _ message: String) {
    (self.status, self.reason, self.message) = (status, reason, message)
  }

  /// What a rule or a fault asks for; without a reason the usual one.
  init(status: Int, reason: String?) {
    self.init(status, reason ?? Self.usualReason(for: status), "simulated")
  }

  static func malformed(_ reason: String, _ message: String) -> WebPushFailure {
    WebPushFailure(400, reason, message)
  }

  static func unauthorized(_ reason: String, _ message: String) -> WebPushFailure {
    WebPushFailure(401, reason, message)
  }

  static let unknown = WebPushFailure(404, "NotFound", "there is no such subscription")
  static let gone = WebPushFailure(410, "Gone", "the subscription has ended")

  /// The body; RFC 8030 leaves its form to the service.
  var json: String {
    #"{"code":\#(status),"reason":\#(JSONText.string(reason)),"error":\#(JSONText.string(message))}"#
  }

  var reply: Reply { .json(status, json) }

  private static func usualReason(for status: Int) -> String {
    switch status {
    case 300..<400: "Redirect"
    case 400: "BadRequest"
    case 401: "Unauthorized"
    case 403: "Forbidden"
    case 404: unknown.reason
    case 410: gone.reason
    case 413: "PayloadTooLarge"
    case 429: "TooManyRequests"
    default: "ServerError"
    }
  }
}
