import Foundation
import NIOCore

extension Answer {
  /// A JSON body.
  static func json(_ status: Int, _ object: Any) -> Answer {
    let data = (try? JSONSerialization.data(withJSONObject: object, options: [.sortedKeys, .withoutEscapingSlashes]))
    return Answer(
      status: status, headers: [("content-type", "application/json; charset=UTF-8")],
      body: ByteBuffer(bytes: data ?? Data()))
  }

  /// A `google.rpc.Status`.
  static func google(_ code: Int, _ status: String, _ message: String, details: [[String: Any]] = []) -> Answer {
    var error: [String: Any] = ["code": code, "message": message, "status": status]
    if !details.isEmpty { error["details"] = details }
    return json(code, ["error": error])
  }

  /// FCM's own error for a status, by its `errorCode`.
  static func fcm(_ status: Int, reason: String?) -> Answer {
    let (code, rpc): (String?, String) =
      switch status {
      case 400: ("INVALID_ARGUMENT", "INVALID_ARGUMENT")
      case 401: (nil, "UNAUTHENTICATED")
      case 403: ("SENDER_ID_MISMATCH", "PERMISSION_DENIED")
      case 404: ("UNREGISTERED", "NOT_FOUND")
      case 429: ("QUOTA_EXCEEDED", "RESOURCE_EXHAUSTED")
      case 500: ("INTERNAL", "INTERNAL")
      default: ("UNAVAILABLE", "UNAVAILABLE")
      }
    // These are names of google.rpc.Code and never stand in an FcmError.
    let isFcmError = !["NOT_FOUND", "PERMISSION_DENIED", "UNAUTHENTICATED"].contains(reason)
    guard let code = reason ?? code, isFcmError else { return google(status, reason ?? rpc, "Request failed.") }
    let detail = ["@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code]
    return google(status, rpc, "The message was not sent: \(code).", details: [detail])
  }
}
