internal import HTTP
internal import HTTPTypes

/// All that the chat-server side refuses with, in the words of Zulip's (`Documentation/Protocols/Zulip.md` 10). What both
/// sides of the wire say stands in `Wire`.
extension APIError {
  // Who calls.

  static var notSignedIn: APIError {
    .unauthorized("Not logged in: API authentication or user session required")
  }
  static var malformedAPIKey: APIError { .unauthorized("Malformed API key") }
  static var invalidAPIKey: APIError { .unauthorized("Invalid API key") }

  // Devices and events.

  init(_ error: DeviceError) {
    switch error {
    case .unknownDevice: self.init("Invalid `device_id`")
    case .nothingToDo:
      self.init("Missing parameters: must provide either all push key fields, all token fields, or both.")
    case .noKeyToRotate: self.init("No push registration exists to rotate key for.")
    case .noKeyForToken: self.init("No push registration exists to rotate token for.")
    case .invalidPushKey: self.init("Invalid `push_key`")
    case .invalidTokenID: self.init("`token_id` is not Base64 encoded")
    case .inProgress: self.init("A registration for the device already in progress.")
    case .tooMany: self.init("Too many devices (limit: \(Devices.maximumPerUser)): remove one first.")
    }
  }

  static func invalidTokenKind(_ text: String) -> APIError {
    APIError("Invalid token_kind: Value error, \(text.prefix(16)) is neither fcm nor apns")
  }

  static var invalidPushKeyID: APIError {
    APIError("Invalid push_key_id: Value error, Not a valid unsigned 32-bit integer")
  }

  static func badQueue(_ id: String) -> APIError {
    APIError(
      code: "BAD_EVENT_QUEUE_ID", "Bad event queue ID: \(id)", fields: [.init("queue_id", .string(id))])
  }

  // Old apps.

  static var unknownToken: APIError { APIError(code: "INVALID_PUSH_DEVICE_TOKEN", "Device not recognized") }
  static var tooManyTokens: APIError { APIError("Too many devices (limit: \(LegacyTokens.maximumPerUser))") }

  // Notifications.

  static var noActiveDevice: APIError {
    APIError(code: "NO_ACTIVE_PUSH_DEVICE", "No active registered push device")
  }

  static func tooLarge(_ fault: PlainNotification.TooLarge) -> APIError {
    APIError("the notification is too large (\(fault.bytes) bytes, limit: \(PlainNotification.maximumBytes))")
  }

  // The bouncer.

  static var pushServiceNotConfigured: APIError {
    APIError(
      code: "PUSH_SERVICE_NOT_CONFIGURED", "Server is not configured to use push notification service.")
  }

  /// What a client is told of a bouncer that does not do what it should
  /// (`Documentation/Protocols/Zulip.md` 10.6).
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

  /// What an old app is told of a bouncer that does not do what it should.
  init(legacy error: BouncerError) {
    switch error {
    case .refused(Code.unknownLegacyDevice, let message):
      self.init(code: Code.unknownLegacyDevice, message)
    case .refused(_, let message): self.init(message)
    case .unreachable, .failed: self.init(error)
    }
  }
}
