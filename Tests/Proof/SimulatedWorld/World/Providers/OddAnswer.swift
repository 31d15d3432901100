import Foundation
import HTTPClient
import NIOCore
import NIOHPACK
import Providers

/// What a provider's answer lets the service make of a notification and of its registration.
enum Meaning: String, Sendable {
  /// It is sent again later.
  case later
  /// The notification is lost, and the log tells of that. The registration stays.
  case refused
  /// The same, and the registration may end, if the route has delivered something.
  case suspect
  /// The registration ends, unless its guard doubts that.
  case dead

  /// Has an answer carry what it means: the service ignores the name.
  static let header = "x-meaning"

  init(_ response: ProviderResponse, of provider: Route.Provider) {
    let body = String(buffer: response.body)
    let named = response.headers.first(name: Self.header).flatMap(Self.init(rawValue:))
    self =
      switch response.status {
      case _ where named != nil: named ?? .later
      case 410: .dead
      case 404 where body.contains("UNREGISTERED"): .dead
      case _
      where ["BadDeviceToken", "DeviceTokenNotForTopic", "SENDER_ID_MISMATCH"].contains(where: body.contains):
        .suspect
      case 400: .refused
      case 404 where provider == .apns: .refused
      default: .later
      }
  }
}

/// An answer that providers give rarely. The list has every row of the tables of Documentation/Providers.md.
struct OddAnswer: Sendable {
  let status: Int
  let body: String
  let meaning: Meaning

  static let apns: [OddAnswer] =
    rows(
      .refused, 400,
      [
        "BadCollapseId", "BadExpirationDate", "BadMessageId", "BadPriority", "InvalidPushType",
        "DuplicateHeaders",
        "PayloadEmpty", "MissingDeviceToken", "New",
      ])
    + rows(.refused, 404, ["BadPath", "New"]) + rows(.refused, 405, ["MethodNotAllowed", "New"])
    + rows(.refused, 413, ["PayloadTooLarge", "New"])
    + rows(.suspect, 400, ["BadDeviceToken", "DeviceTokenNotForTopic", "Unregistered", "ExpiredToken"])
    + rows(.suspect, 410, ["New"]) + rows(.dead, 410, ["Unregistered", "ExpiredToken"])
    + rows(.later, 400, ["BadTopic", "MissingTopic", "TopicDisallowed", "IdleTimeout"])
    + rows(
      .later, 403,
      [
        "ExpiredProviderToken", "UnrelatedKeyIdInToken", "InvalidProviderToken", "MissingProviderToken",
        "BadCertificate", "BadCertificateEnvironment", "BadEnvironmentKeyIdInToken",
        "BadEnvironmentKeyInToken",
        "Forbidden", "New",
      ]) + rows(.later, 401, ["New"]) + rows(.later, 418, ["New"])
    + rows(.later, 429, ["TooManyRequests", "TooManyProviderTokenUpdates"])
    + rows(.later, 500, ["InternalServerError", "New"])
    + rows(.later, 503, ["ServiceUnavailable", "Shutdown"])
    + [400, 403, 410, 502].map { OddAnswer(status: $0, body: "<html></html>", meaning: .later) }

  private static func rows(_ meaning: Meaning, _ status: Int, _ reasons: [String]) -> [OddAnswer] {
    reasons.map { reason in
      // A time that is later than any registration.
      let time = status == 410 ? #","timestamp":4000000000000"# : ""
      return OddAnswer(status: status, body: #"{"reason":"\#(reason)"\#(time)}"#, meaning: meaning)
    }
  }

  static let fcm: [OddAnswer] = [
    google(.dead, 404, "NOT_FOUND", error: "UNREGISTERED"),
    google(.suspect, 400, "INVALID_ARGUMENT", error: "UNREGISTERED"), google(.suspect, 404, "UNREGISTERED"),
    google(.suspect, 403, "PERMISSION_DENIED", error: "SENDER_ID_MISMATCH"),
    google(.suspect, 400, "INVALID_ARGUMENT", field: "message.token"),
    google(.suspect, 400, "INVALID_ARGUMENT", field: "message.fid"),
    google(
      .suspect, 400, "INVALID_ARGUMENT", error: "INVALID_ARGUMENT",
      message: "The registration token is not a valid FCM registration token"),
    google(.refused, 400, "INVALID_ARGUMENT", error: "INVALID_ARGUMENT"),
    google(.refused, 400, "INVALID_ARGUMENT", field: "message.data"), google(.refused, 400, "NEW"),
    google(.refused, 413, "NEW"), google(.later, 404, "NOT_FOUND"), google(.later, 401, "UNAUTHENTICATED"),
    google(.later, 401, "UNAUTHENTICATED", error: "THIRD_PARTY_AUTH_ERROR"),
    google(.later, 401, "UNAUTHENTICATED", error: "APNS_AUTH_ERROR"),
    google(.later, 403, "PERMISSION_DENIED", error: "NEW"), google(.later, 403, "PERMISSION_DENIED"),
    google(.later, 429, "RESOURCE_EXHAUSTED", error: "QUOTA_EXCEEDED"),
    google(.later, 429, "RESOURCE_EXHAUSTED"),
    google(.later, 500, "INTERNAL", error: "INTERNAL"), google(.later, 503, "UNAVAILABLE"),
    google(.later, 400, "INVALID_ARGUMENT", error: "UNSPECIFIED_ERROR"),
    OddAnswer(status: 202, body: "<html></html>", meaning: .later),
    OddAnswer(status: 404, body: "", meaning: .later), OddAnswer(status: 502, body: "{}", meaning: .later),
  ]

  private static func google(
    _ meaning: Meaning, _ code: Int, _ status: String, error: String? = nil, field: String? = nil,
    message: String = "m"
  ) -> OddAnswer {
    let details =
      error.map { #"{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"\#($0)"}"# }
      ?? field.map {
        #"{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"\#($0)"}]}"#
      } ?? ""
    let body =
      #"{"error":{"code":\#(code),"message":"\#(message)","status":"\#(status)","details":[\#(details)]}}"#
    return OddAnswer(status: code, body: body, meaning: meaning)
  }

  static func all(of provider: Route.Provider) -> [OddAnswer] { provider == .apns ? apns : fcm }
}
