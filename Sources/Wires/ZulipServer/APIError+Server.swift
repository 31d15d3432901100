import HTTP
import HTTPTypes
import ZulipBouncer

/// Refusals used in more than one place, with Zulip's texts (`Documentation/Protocols/Zulip.md` 10).
extension APIError {
  static let pushServiceNotConfigured = APIError(
    code: "PUSH_SERVICE_NOT_CONFIGURED", "Server is not configured to use push notification service.")
  static let noActiveDevice = APIError(code: "NO_ACTIVE_PUSH_DEVICE", "No active registered push device")

  static func badQueue(_ id: String) -> APIError {
    APIError(
      code: "BAD_EVENT_QUEUE_ID", "Bad event queue ID: \(id)", fields: [.init("queue_id", .string(id))])
  }

  /// The answer to a client when the bouncer fails or refuses (`Documentation/Protocols/Zulip.md` 10.6).
  init(_ error: BouncerError) {
    switch error {
    case .unreachable:
      self.init(
        .badGateway, code: "FAILED_TO_CONNECT_BOUNCER",
        "Network error while connecting to Zulip push notification service.")
    case .failed:
      self.init(
        .badGateway, code: "INTERNAL_SERVER_ERROR_ON_BOUNCER",
        "Internal server error on Zulip push notification service, retry later.")
    case .refused:
      self.init(
        .forbidden, code: "ADMIN_ACTION_REQUIRED",
        "Push notification configuration issue on server, contact the server administrator or retry later.")
    }
  }

  /// The answer to an old app when the bouncer fails or refuses.
  init(legacy error: BouncerError) {
    switch error {
    case .refused(Code.unknownLegacyDevice, let message):
      self.init(code: Code.unknownLegacyDevice, message)
    case .refused(_, let message): self.init(message)
    case .unreachable, .failed: self.init(error)
    }
  }
}
