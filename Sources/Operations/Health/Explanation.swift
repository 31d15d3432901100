internal import Foundation
internal import Providers

/// What is behind a provider's reason, in plain sentences for the operator: `/readyz`, the log, `doctor`, the page
/// and the commands all take them from here.
package struct Explanation: Sendable, Hashable {
  /// What it means.
  package let meaning: String
  /// What to do.
  package let advice: String

  init(_ meaning: String, _ advice: String) {
    self.meaning = meaning
    self.advice = advice
  }

  /// Of a reason as it was written down: a name that is not known (any more) has a sentence too.
  package static func of(_ name: String) -> Explanation {
    (Reason(rawValue: name) ?? .unknown).explanation
  }
}

extension Explanation {
  private static let resent = "what waits is sent again until it is accepted or too old (delivery.max_age)."
  static let passes = "Nothing: \(resent)"
  /// Goes before what to do if it lasts.
  static let passesAtFirst = "Nothing at first: \(resent) If it lasts:"
  static let reach = """
    See that the provider can be reached from this machine: name resolution, route, firewall, providers.proxy. \
    Waiting notifications are sent as soon as it can be.
    """
  static let bug = """
    This should not happen: see whether there is a newer version of push-bouncer, and report it with this reason.
    """
  static let compareAPNsKey = """
    Compare key_id and team_id in Keys/apns, and the .p8 file, with Apple's developer account: Certificates, \
    Identifiers & Profiles, Keys.
    """
  static let compareTopic = """
    Compare topics in Keys/apns with the bundle id of the app, and see that the key may be used for it in Apple's \
    developer account.
    """
  static let compareEnvironment = """
    Compare environment in Keys/apns with the app: builds from Xcode need sandbox, builds from TestFlight and the \
    App Store need production.
    """
  static let registersAgain = """
    Nothing: the registration ends, and the phone registers again when its app is opened.
    """
  static let compareProject = """
    See that the file in Keys/fcm is of the Firebase project whose google-services.json the app was built with.
    """
  static let replaceServiceAccount = """
    See in Google Cloud's IAM that the service account exists and is enabled; if it does, make a new JSON key for it \
    and put it into Keys/fcm.
    """
  static let setClock = "See that this machine's clock is right."
}
