import Foundation
import HTTPClient

/// Apple's push service.
enum APNs: PushProvider {
  static let service = "Apple's push service"

  static func lack(isSeveral: Bool, in environment: APNsCredential.Environment?) -> String {
    environment == nil
      ? "no key in Keys/apns lists \(isSeveral ? "them" : "it")"
      : "no key of that environment in Keys/apns lists it, only one of the other"
  }

  static func advice(forLackIn environment: APNsCredential.Environment?) -> String {
    let action =
      environment.map {
        "put the key back, or list the bundle id in topics of one whose environment is \($0.rawValue)"
      } ?? "add the bundle id to topics of the app's key in Keys/apns, spelled as the app has it"
    return "\(action); it is reloaded within seconds"
  }

  static let credential: (any ProviderCredential.Type)? = APNsCredential.self
  static let tables = [(heading: "Apple (APNs)", rows: Reason.apns)]
  static let named = Reason.apns
  static let usualOutcomes: [String: [Reason]] = [
    "rejected": [.payloadTooLarge], "misconfigured": [.invalidProviderToken, .topicDisallowed],
    "retry": [.expiredProviderToken, .tooManyRequests, .internalServerError, .serviceUnavailable],
  ]

  static func outcome(of answer: ProviderResponse, now: () -> Date) -> Outcome {
    Outcome(apns: answer, now: now)
  }

  /// Apple, "Establishing a token-based connection to APNs" and "Handling notification responses from APNs".
  static func remedy(after outcome: Outcome) -> Remedy {
    switch outcome.reason {
    case .expiredProviderToken: Remedy(retired: .untilNow, again: .withAnotherToken)
    // The first token on a connection fixes its key.
    case .unrelatedKeyIDInToken: Remedy(retired: .untilNow, again: .atOnce)
    // The connection is unusable for a while; the token still works.
    case .tooManyProviderTokenUpdates, .idleTimeout: Remedy(retired: .this, again: .atOnce)
    // The key is revoked or was never valid.
    case .invalidProviderToken: Remedy(retired: .all)
    case .internalServerError, .serviceUnavailable, .shutdown, .serverError: Remedy(retired: .this)
    // The key may have gained the topic after the connection was opened.
    case .topicDisallowed: Remedy(retired: .this)
    default: Remedy()
    }
  }

  static let endpointForm = (schemes: ["https"], advice: "must be an https URL: APNs speaks HTTP/2")
  static let targetsApps = true
  /// Apple asks for 15 minutes.
  static let asksForLongPauses = true
}

extension Outcome {
  /// Whether APNs' other environment may take it: this one does not know the token, or the key is not for it.
  package var concernsEnvironment: Bool {
    switch self {
    case .suspect(.badDeviceToken), .misconfigured(.badEnvironmentKeyIDInToken),
      .misconfigured(.badEnvironmentKeyInToken):
      true
    case .delivered, .passedOn, .dead, .suspect, .retry, .rejected, .misconfigured: false
    }
  }
}

extension APNs {
  /// Whether a text is pairs of hexadecimal digits; ASCII white space between pairs is accepted.
  static func isToken(_ text: String) -> Bool {
    var text = text
    return text.withUTF8 { bytes in
      var half = false
      for byte in bytes {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
          UInt8(ascii: "A")...UInt8(ascii: "F"):
          half.toggle()
        case 0x09...0x0D, 0x20:
          if half { return false }
        default:
          return false
        }
      }
      return !half
    }
  }
}
