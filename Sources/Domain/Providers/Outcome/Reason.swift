import HTTPClient

/// The reason for an outcome: the provider's name for it (`BadDeviceToken`, `UNREGISTERED`) or one of ours
/// (`timeout`, `connectionLost`). A closed list, because it labels metrics; names that are not in it become
/// ``unknown``.
///
/// Each reason has one row in one table, in its provider's folder or in ``own``: its name, the outcome that it stands for, what it means in
/// a sentence, and what to do. A new reason needs a constant below only if code names it. `Documentation/Reasons.md` is made
/// from these tables.
package struct Reason: RawRepresentable, Sendable, Hashable, CaseIterable, CustomStringConvertible {
  package let rawValue: String

  /// A reason of the list; nil for any other name.
  package init?(rawValue: String) {
    self.init(rawValue)
    guard row != nil else { return nil }
  }

  /// The name of a row.
  init(_ name: String) { rawValue = name }

  package var description: String { rawValue }
}

extension Reason {
  /// The outcome that a provider's reason stands for, unless the status of its answer says otherwise.
  package enum Statement: Sendable, Hashable {
    case dead, suspect, rejected, misconfigured
    case retry(Outcome.Scope)
  }

  /// A row of a table.
  package struct Row: Sendable {
    package let reason: Reason
    /// Nil if it depends on the provider.
    package let statement: Statement?
    package let explanation: Explanation

    /// Whether it usually ends registrations.
    var endsToken: Bool { statement == .dead || statement == .suspect }

    /// A reason that no code names.
    ///
    /// - Parameter meaning: chat servers read it, too: it names no file, setting or command of this program's.
    init(
      _ name: String, _ statement: Statement, _ meaning: String, _ advice: Advice, mayBeClock: Bool = false
    ) {
      self.init(Reason(name), statement, Explanation(meaning, advice, mayBeClock: mayBeClock))
    }

    /// - Parameter mayBeClock: whether a wrong clock of this machine would do that, too.
    init(
      _ reason: Reason, _ statement: Statement, _ meaning: String, _ advice: Advice, mayBeClock: Bool = false
    ) {
      self.init(reason, statement, Explanation(meaning, advice, mayBeClock: mayBeClock))
    }

    /// One of our own reasons, whose outcome depends on where it is used.
    init(_ reason: Reason, _ meaning: String, _ advice: Advice) {
      self.init(reason, nil, Explanation(meaning, advice))
    }

    init(_ reason: Reason, _ statement: Statement?, _ explanation: Explanation) {
      self.reason = reason
      self.statement = statement
      self.explanation = explanation
    }
  }

  private static let names = Set(Route.Provider.allCases.flatMap { $0.definition.named }.map(\.reason))
  /// All rows, by what they are about.
  package static let tables: [(heading: String, rows: [Row])] =
    Route.Provider.allCases.flatMap { $0.definition.tables } + [
      ("No answer, and nothing sent", own + [unknownRow]), ("No connection", connection),
    ]

  private static let all = tables.flatMap(\.rows)
  private static let table = Dictionary(uniqueKeysWithValues: all.map { ($0.reason, $0) })

  package static let allCases = all.map(\.reason)

  var row: Row? { Self.table[self] }

  /// The rows about pushes of one provider alone.
  static func rows(of provider: Route.Provider) -> [Row] { provider.definition.tables.flatMap(\.rows) }

  /// The reason of a provider's name. Names that are unknown, or our own, become ``unknown``.
  init(providerName: String) {
    let reason = Reason(providerName)
    self = reason.isOurs ? .unknown : reason
  }

  /// Whether it is this program's reason, not a provider's.
  var isOurs: Bool { !Self.names.contains(self) }

  /// What it means, and what to do. Each reason has a sentence of its own.
  package var explanation: Explanation { (row ?? Self.unknownRow).explanation }

  /// What it means at a provider, and what to do.
  package func explanation(at provider: Route.Provider) -> Explanation {
    guard let (failure, isOfSignIn) = connectionFailure, !isOfSignIn else { return explanation }
    return failure.explanation(of: provider.definition.service)
  }

  /// Whether a provider means by it that the token is dead.
  package var isOfDeadToken: Bool { row?.statement == .dead }
}

// MARK: Names that the code uses

extension Reason {
  // Ours.
  /// This program ended before the answer came.
  package static let abandoned = Reason("abandoned")
  /// The device has as many waiting pushes as are allowed.
  package static let backlogged = Reason("backlogged")
  /// Nothing was sent, because the route does not work or is too slow at present.
  package static let breakerOpen = Reason("breakerOpen")
  /// The caller was cancelled before the answer came.
  package static let cancelled = Reason("cancelled")
  /// The connection was closed while the request was under way, so the provider may have taken the push.
  package static let connectionLost = Reason("connectionLost")
  package static let forbiddenAddress = Reason("forbiddenAddress")
  package static let deletionsHeld = Reason("deletionsHeld")
  /// The device gets more notifications than its pace allows.
  package static let deviceOverPace = Reason("deviceOverPace")
  /// The device's owner, or the push service, has as many waiting pushes as are allowed.
  package static let noRoom = Reason("noRoom")
  /// Too many requests wait for a connection.
  package static let overloaded = Reason("overloaded")
  /// The provider refused the stream unprocessed (REFUSED_STREAM), each time.
  package static let refused = Reason("refused")
  /// A 5xx status without a reason.
  package static let serverError = Reason("serverError")
  /// The chat server sends more notifications than its pace allows.
  package static let serverOverPace = Reason("serverOverPace")
  /// This program is shutting down, or the credential is being replaced.
  package static let shuttingDown = Reason("shuttingDown")
  /// The provider reset the stream while the request was under way.
  package static let streamReset = Reason("streamReset")
  /// No answer within the deadline.
  package static let timeout = Reason("timeout")
  /// No credential serves the topic or project.
  package static let unconfigured = Reason("unconfigured")
  /// A provider's reason that is not in this list.
  package static let unknown = Reason("unknown")
  /// An answer that is not the provider's: HTML, empty or cut; from a push service, a redirect.
  package static let unreadableAnswer = Reason("unreadableAnswer")

  // No connection to the provider: see ``ConnectionFailure``.
  package static let nameNotResolved = ConnectionFailure.nameNotResolved.reason
  package static let connectionRefused = ConnectionFailure.connectionRefused.reason
  package static let connectTimeout = ConnectionFailure.connectTimeout.reason
  package static let networkUnreachable = ConnectionFailure.networkUnreachable.reason
  package static let connectFailed = ConnectionFailure.connectFailed.reason
  package static let descriptorsExhausted = ConnectionFailure.descriptorsExhausted.reason
  package static let handshakeTimeout = ConnectionFailure.handshakeTimeout.reason
  package static let handshakeClosed = ConnectionFailure.handshakeClosed.reason
  package static let notTLS = ConnectionFailure.notTLS.reason
  package static let http2NotOffered = ConnectionFailure.http2NotOffered.reason
  package static let tlsFailed = ConnectionFailure.tlsFailed.reason
  package static let certificateExpired = ConnectionFailure.certificateExpired.reason
  package static let certificateNotYetValid = ConnectionFailure.certificateNotYetValid.reason
  package static let certificateUntrusted = ConnectionFailure.certificateUntrusted.reason
  package static let certificateNameMismatch = ConnectionFailure.certificateNameMismatch.reason
  package static let proxyNameNotResolved = ConnectionFailure.proxyNameNotResolved.reason
  package static let proxyConnectionRefused = ConnectionFailure.proxyConnectionRefused.reason
  package static let proxyConnectTimeout = ConnectionFailure.proxyConnectTimeout.reason
  package static let proxyUnreachable = ConnectionFailure.proxyUnreachable.reason
  package static let proxyTimeout = ConnectionFailure.proxyTimeout.reason
  package static let proxyUnauthorized = ConnectionFailure.proxyUnauthorized.reason
  package static let proxyForbidden = ConnectionFailure.proxyForbidden.reason
  package static let proxyCannotConnect = ConnectionFailure.proxyCannotConnect.reason
  package static let proxyRefused = ConnectionFailure.proxyRefused.reason

}
