/// The explanation of a reason for the operator, in plain sentences: for `/readyz`, the log, `doctor`, the pages and the
/// commands.
package struct Explanation: Sendable, Hashable {
  package let meaning: String
  private let action: String
  /// Whether a wrong clock of this machine may be the cause.
  package let mayBeClock: Bool

  package init(_ meaning: String, _ advice: String, mayBeClock: Bool = false) {
    self.meaning = meaning
    self.mayBeClock = mayBeClock
    action = advice
  }

  /// What to do.
  package var advice: String { mayBeClock ? "\(Self.setClock) \(action)" : action }

  /// What to do, where it is known how many seconds this machine's clock is ahead; negative if it is behind.
  package func advice(clockAhead seconds: Int?) -> String {
    guard mayBeClock, let seconds else { return advice }
    guard abs(seconds) > 60 else { return "This machine's clock is right. \(action)" }
    let direction = seconds > 0 ? "ahead" : "behind"
    return
      "Set this machine's clock first: it is \(abs(seconds)) seconds \(direction). If that does not help: \(action)"
  }

  /// The explanation of a stored reason. A name that is not known (any more) has a general one.
  package static func of(_ name: String) -> Explanation {
    (Reason(rawValue: name) ?? .unknown).explanation
  }
}

extension Explanation {
  private static let resent = "what waits is sent again until it is accepted or too old (delivery.max_age)."
  static let passes = "No action needed: \(resent)"
  /// Introduces the advice for a problem that usually passes by itself.
  static let passesAtFirst = "Usually passes by itself: \(resent) If it lasts:"
  static let reach = """
    See that the provider can be reached from this machine: name resolution, route, firewall, providers.proxy. \
    \(sentOnceReachable)
    """
  static let signIn = "Google's sign-in (oauth2.googleapis.com)"
  static let sentOnceReachable = "Waiting notifications are sent as soon as it can be reached."
  static let cutConnections = """
    \(passesAtFirst) see whether a firewall or proxy in between cuts connections, and what the provider says of \
    outages.
    """
  static let answersInBetween = """
    \(passesAtFirst) see whether a firewall or proxy in between answers, and what the provider says of outages.
    """
  static let appleStatus = "\(passes) Apple reports outages at developer.apple.com/system-status."
  static let googleStatus = "\(passes) Google reports outages at status.firebase.google.com."
  static let senderOrBug = """
    If it happens to one chat server or application only, see what it puts into its notifications. Else see whether there \
    is a newer version of push-bouncer, and report it with this reason.
    """
  static let bug = """
    This should not happen: see whether there is a newer version of push-bouncer, and report it with this reason.
    """
  static let compareAPNsKey = """
    Compare key_id and team_id in Keys/apns, and the .p8 file, with \
    Apple's developer account: Certificates, Identifiers & Profiles, Keys. A key that is no longer listed there is \
    revoked: make a new one.
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
    No action needed: the registration ends, and the phone registers again when its app is opened.
    """
  static let compareProject = """
    See that the file in Keys/fcm is of the Firebase project whose google-services.json the app was built with.
    """
  static let replaceServiceAccount = """
    See in Google Cloud's IAM that the service account exists and is enabled; if it does, make a new JSON key for it \
    and put it into Keys/fcm.
    """
  static let setClock = "See first that this machine's clock is right."
}
