import Foundation
import HTTPClient

/// Google's push service.
enum FCM: PushProvider {
  static let service = "Google's push service"
  /// Where access tokens come from, as the subject of a sentence.
  static let signIn = "Google's sign-in (oauth2.googleapis.com)"
  static let namelessTarget = "the default Firebase project"

  static func lack(isSeveral: Bool, in environment: APNsCredential.Environment?) -> String {
    "no service account in Keys/fcm serves \(isSeveral ? "them" : "it")"
  }

  static func advice(forLackIn environment: APNsCredential.Environment?) -> String {
    "put the service account of the app's Firebase project into Keys/fcm; it is reloaded within seconds"
  }

  static let credential: (any ProviderCredential.Type)? = FCMCredential.self
  static let tables = [
    (heading: "Google (FCM)", rows: Reason.fcm + Reason.fcmOwn),
    (heading: "Google's sign-in", rows: Reason.googleSignIn + Reason.ownOfSignIn),
  ]
  static let named = Reason.fcm + Reason.googleSignIn
  static let usualOutcomes: [String: [Reason]] = [
    "rejected": [.fcmInvalidArgument, .payloadTooLarge, .reservedDataName],
    "misconfigured": [.fcmPermissionDenied, .fcmUnauthenticated, .invalidGrant],
    "retry": [
      .fcmThirdPartyAuthError, .tokenUnavailable, .fcmQuotaExceeded, .fcmInternal, .fcmUnavailable,
    ],
  ]

  static func outcome(of answer: ProviderResponse, now: () -> Date) -> Outcome {
    Outcome(fcm: answer, now: now)
  }

  /// The access token may have expired or been revoked.
  static func remedy(after outcome: Outcome) -> Remedy {
    outcome.reason == .fcmUnauthenticated ? Remedy(again: .withAnotherToken) : Remedy()
  }

  /// 240 messages in a minute and 5,000 in an hour (Firebase, "Throttling and quotas").
  static let limitsDevices = true
}

extension FCM {
  /// Whether registration tokens and installation ids have this byte.
  static func isOfToken(_ byte: UInt8) -> Bool { byte.isBase64URL || byte == UInt8(ascii: ":") }
}
