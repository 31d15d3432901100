/// An error of Google's in the shape of `google.rpc.Status` (`Documentation/Providers.md`, FCM).
struct FCMStatus: Error {
  var code: Int
  var status: String
  var message: String
  /// `errorCode` of `google.firebase.fcm.v1.FcmError`, where there is one.
  var errorCode: String?
  /// `fieldViolations` of `google.rpc.BadRequest`, where there are any.
  var field: String?

  /// Our credentials are not good.
  static let unauthenticated = FCMStatus(
    code: 401, status: "UNAUTHENTICATED",
    message:
      "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other "
      + "valid authentication credential.")

  /// The project in the path is not there. Not a dead token: no FcmError.
  static let projectNotFound = FCMStatus(
    code: 404, status: "NOT_FOUND", message: "Requested entity was not found.")

  /// The message is wrong at `field`.
  static func invalid(_ field: String, _ message: String) -> FCMStatus {
    FCMStatus(code: 400, status: "INVALID_ARGUMENT", message: message, field: field)
  }

  /// The token is malformed.
  static let invalidToken = FCMStatus(
    code: 400, status: "INVALID_ARGUMENT",
    message: "The registration token is not a valid FCM registration token", errorCode: "INVALID_ARGUMENT")

  /// What a rule or a fault asks for; without a reason the usual one.
  init(code: Int, reason: String?) {
    let reason = reason ?? Self.usualReason(for: code)
    if code == 400, reason == "INVALID_ARGUMENT" {
      self = .invalidToken
      return
    }
    self.code = code
    status = Self.canonicalStatus(of: code)
    message = code == 404 ? "Requested entity was not found." : "Simulated: \(reason)."
    // These come from Google's front end, which knows nothing of FCM's codes.
    errorCode = ["UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND"].contains(reason) ? nil : reason
  }

  private init(code: Int, status: String, message: String, errorCode: String? = nil, field: String? = nil) {
    self.code = code
    self.status = status
    self.message = message
    self.errorCode = errorCode
    self.field = field
  }

  /// The reason for the record.
  var reason: String { errorCode ?? status }

  /// The body.
  var json: String {
    var details: [String] = []
    if let errorCode {
      details.append(
        #"{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":\#(JSONText.string(errorCode))}"#
      )
    }
    if let field {
      details.append(
        #"{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"#
          + #"\#(JSONText.string(field)),"description":\#(JSONText.string(message))}]}"#)
    }
    let tail = details.isEmpty ? "" : #","details":[\#(details.joined(separator: ","))]"#
    return
      #"{"error":{"code":\#(code),"message":\#(JSONText.string(message)),"status":"\#(status)"\#(tail)}}"#
  }

  private static func usualReason(for code: Int) -> String {
    switch code {
    case 400: "INVALID_ARGUMENT"
    case 401: "UNAUTHENTICATED"
    case 403: "SENDER_ID_MISMATCH"
    case 404: "UNREGISTERED"
    case 429: "QUOTA_EXCEEDED"
    case 503: "UNAVAILABLE"
    default: "INTERNAL"
    }
  }

  /// google.rpc.Code by HTTP status.
  private static func canonicalStatus(of code: Int) -> String {
    switch code {
    case 400: "INVALID_ARGUMENT"
    case 401: "UNAUTHENTICATED"
    case 403: "PERMISSION_DENIED"
    case 404: "NOT_FOUND"
    case 429: "RESOURCE_EXHAUSTED"
    case 503: "UNAVAILABLE"
    case 504: "DEADLINE_EXCEEDED"
    default: "INTERNAL"
    }
  }
}
