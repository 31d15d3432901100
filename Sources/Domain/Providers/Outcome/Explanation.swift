/// The explanation of a reason, in plain sentences.
package struct Explanation: Sendable, Hashable {
  /// Who reads it.
  package enum Reader: Sendable {
    /// The operator: `/readyz`, the log, `doctor`, the pages and the commands.
    case `operator`
    /// The admin of a chat server (`push/status`), who is told of no file, setting or command of this service.
    case chatServer
  }

  package let meaning: String
  private let action: Advice
  /// Whether a wrong clock of this machine may be the cause.
  package let mayBeClock: Bool
  /// The meaning for a chat server's admin; nil if it is the same.
  private let publicMeaning: String?

  package init(
    _ meaning: String, _ advice: Advice, mayBeClock: Bool = false, publicMeaning: String? = nil
  ) {
    self.meaning = meaning
    self.mayBeClock = mayBeClock
    self.publicMeaning = publicMeaning
    action = advice
  }

  /// What to do.
  package var advice: String { mayBeClock ? "\(Self.setClock) \(action.text)" : action.text }

  /// What to do, where it is known how many seconds this machine's clock is ahead; negative if it is behind.
  package func advice(clockAhead seconds: Int?) -> String {
    guard mayBeClock, let seconds else { return advice }
    guard abs(seconds) > 60 else { return "This machine's clock is right. \(action.text)" }
    let direction = seconds > 0 ? "ahead" : "behind"
    return
      "Set this machine's clock first: it is \(abs(seconds)) seconds \(direction). If that does not help: \(action.text)"
  }

  /// What that reader is told.
  package func told(to reader: Reader) -> Explanation {
    switch reader {
    case .operator: self
    case .chatServer: Explanation(publicMeaning ?? meaning, Advice(action.forServers))
    }
  }

  /// The same meaning with other advice.
  package func advising(_ advice: Advice) -> Explanation {
    Explanation(meaning, advice, publicMeaning: publicMeaning)
  }

  /// The explanation of a stored reason. A name that is not known (any more) has a general one.
  package static func of(_ name: String, to reader: Reader = .operator) -> Explanation {
    (Reason(rawValue: name) ?? .unknown).explanation.told(to: reader)
  }
}

/// What to do about a reason. A literal is for the operator alone: a chat server's admin is told that the operator has to
/// act.
package struct Advice: Sendable, Hashable, ExpressibleByStringInterpolation {
  /// For the operator.
  package let text: String
  /// For a chat server's admin.
  let forServers: String

  package init(_ text: String, forServers: String = "\(Advice.theOperator) has to fix it.") {
    self.text = text
    self.forServers = forServers
  }

  package init(stringLiteral text: String) { self.init(text) }

  package static let theOperator = "The operator of this push notification service"

  /// For a problem that usually passes by itself.
  static func ifItLasts(_ advice: String) -> Advice {
    Advice(
      "Usually passes by itself: \(resent) (delivery.max_age). If it lasts: \(advice)",
      forServers:
        "Usually passes by itself: \(resent). If it lasts, tell the operator of this push notification service."
    )
  }

  /// For a problem of one phone that ends with its next registration.
  static func forMostPhones(_ advice: Advice) -> Advice {
    let one = "For one phone, no action is needed: it registers again. For most phones:"
    return Advice(
      "\(one) \(advice.text)",
      forServers: "\(one) the operator of this push notification service has to fix it.")
  }

  private static let resent = "what waits is sent again until it is accepted or too old"

  static func noAction(_ more: String = "") -> Advice {
    Advice(
      "No action needed: \(resent) (delivery.max_age).\(more)",
      forServers: "No action needed: \(resent).\(more)")
  }

  static let passes = noAction()

  /// For a provider that cannot be reached.
  static func untilReached(_ advice: String) -> Advice {
    let sent = "Waiting notifications are sent as soon as it can be reached."
    return Advice("\(advice) \(sent)", forServers: "\(theOperator) has to fix it, if it lasts. \(sent)")
  }

  static let reach = untilReached(
    "See that the provider can be reached from this machine: name resolution, route, firewall, providers.proxy."
  )
  static let cutConnections = ifItLasts(
    "see whether a firewall or proxy in between cuts connections, and what the provider says of outages.")
  static let answersInBetween = ifItLasts(
    "see whether a firewall or proxy in between answers, and what the provider says of outages.")
  static let senderOrBug = Advice(
    """
    If it happens to one chat server or application only, see what it puts into its notifications. Else see whether there \
    is a newer version of push-bouncer, and report it with this reason.
    """,
    forServers: """
      See what the chat server puts into its notifications. If that is right, tell the operator of this push notification \
      service.
      """)
  static let bug = Advice(
    "This should not happen: see whether there is a newer version of push-bouncer, and report it with this reason.",
    forServers: "This should not happen: tell the operator of this push notification service.")
  static let registersAgain = same(
    "No action needed: the registration ends, and the phone registers again when its app is opened.")

  private static let endsLater = """
    Each ends if the provider says the same of it again an hour or more later, and stays if its app registers again.
    """

  /// For registrations that a provider reports as dead, too many at once to be believed.
  ///
  /// - Parameter route: the credential's name in `routes list`.
  package static func heldDeletions(on route: String = "ROUTE") -> Advice {
    Advice(
      "\(endsLater) See with push-bouncer doctor whether the credential is the right one. \(trust(route))",
      forServers: endsLater)
  }

  /// Whoever reads of the command that deletes them reads its condition.
  package static func trust(_ route: String = "ROUTE") -> String {
    """
    Delete them at once with push-bouncer routes trust \(route) only if you know why so many are dead, for example after \
    moving in with many old tokens.
    """
  }

  /// For a registration that lives although its provider has called the token dead.
  package static let renewed = same(
    """
    The registration stays, because it was made or renewed after the token died. If the provider says so again an hour or \
    more after that, it ends, and the phone registers again when its app is opened.
    """)
  /// For both readers.
  static func same(_ text: String) -> Advice { Advice(text, forServers: text) }
}

extension Explanation {
  static let setClock = "See first that this machine's clock is right."
}
