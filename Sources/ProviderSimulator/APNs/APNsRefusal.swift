import NIOCore

/// Why APNs refuses a notification (Apple, "Handling notification responses from APNs").
struct APNsRefusal: Error, Hashable {
  let status: Int
  let reason: String

  static let badCollapseID = APNsRefusal(status: 400, reason: "BadCollapseId")
  static let badDeviceToken = APNsRefusal(status: 400, reason: "BadDeviceToken")
  static let badExpirationDate = APNsRefusal(status: 400, reason: "BadExpirationDate")
  static let badMessageID = APNsRefusal(status: 400, reason: "BadMessageId")
  static let badPath = APNsRefusal(status: 404, reason: "BadPath")
  static let badPriority = APNsRefusal(status: 400, reason: "BadPriority")
  static let duplicateHeaders = APNsRefusal(status: 400, reason: "DuplicateHeaders")
  static let expiredProviderToken = APNsRefusal(status: 403, reason: "ExpiredProviderToken")
  static let invalidProviderToken = APNsRefusal(status: 403, reason: "InvalidProviderToken")
  static let invalidPushType = APNsRefusal(status: 400, reason: "InvalidPushType")
  static let methodNotAllowed = APNsRefusal(status: 405, reason: "MethodNotAllowed")
  static let missingDeviceToken = APNsRefusal(status: 400, reason: "MissingDeviceToken")
  static let missingProviderToken = APNsRefusal(status: 403, reason: "MissingProviderToken")
  static let missingTopic = APNsRefusal(status: 400, reason: "MissingTopic")
  static let payloadEmpty = APNsRefusal(status: 400, reason: "PayloadEmpty")
  static let payloadTooLarge = APNsRefusal(status: 413, reason: "PayloadTooLarge")
  static let tooManyProviderTokenUpdates = APNsRefusal(status: 429, reason: "TooManyProviderTokenUpdates")
  static let topicDisallowed = APNsRefusal(status: 400, reason: "TopicDisallowed")

  /// The reason that goes with a status, where none is told.
  static func usualReason(_ status: Int) -> String {
    switch status {
    case 400: "BadDeviceToken"
    case 403: "InvalidProviderToken"
    case 404: "BadPath"
    case 405: "MethodNotAllowed"
    case 410: "Unregistered"
    case 413: "PayloadTooLarge"
    case 429: "TooManyRequests"
    case 500: "InternalServerError"
    default: "ServiceUnavailable"
    }
  }
}
