import Foundation
import HTTPClient
import NIOCore
import NIOHPACK
import Providers
import Sealing

/// What each run of a node has heard from the providers, and must remember.
struct AnswersHeard {
  /// A run of a node, and what it has heard something about.
  struct Ear<Subject: Hashable>: Hashable {
    let life: Int
    let subject: Subject
  }

  /// A provider's word that nothing may be sent before a time.
  struct Pause {
    let life: Life
    let heardAt: Double
    /// The latest of the times that were named; infinite for a notification that was refused for good.
    var until: Double
    /// Whether it was named as a date, which a wrong clock reads wrongly.
    let isDate: Bool
  }

  struct Notification: Hashable {
    let label: String
    let token: String
  }

  /// By token and run: other nodes do not know it.
  var pausesOfTokens: [Ear<Question.Recipient>: Pause] = [:]
  /// By notification: when it is due is in the database.
  var pausesOfNotifications: [Notification: Pause] = [:]
  /// The latest time that a provider has named.
  var latestPause = -1.0
  /// When a push was last taken, by run and route.
  var takenAt: [Ear<String>: Double] = [:]
  /// The routes, each with a kind of registrations, over which a push was ever taken, by run.
  var proven: Set<Ear<String>> = []
  /// When an answer of a meaning was last heard about a token, by run and the token's fingerprint.
  var said: [Ear<String>: [Meaning: Double]] = [:]
  /// When a token was last refused for a reason that may be its own, by token. Any other answer ends that.
  var refusedAt: [String: Double] = [:]

  /// A run of a node has loaded other credentials of these names: what it has heard was about the former ones.
  mutating func forget(by life: Life, over credentials: [String]) {
    func isKept(_ number: Int, _ route: String) -> Bool {
      number != life.number || !credentials.contains { route.hasPrefix("\($0) ") }
    }
    pausesOfTokens = pausesOfTokens.filter { isKept($0.key.life, $0.key.subject.route) }
    proven = proven.filter { isKept($0.life, $0.subject) }
  }
}

/// "Nothing is sent before the time that the provider has named, and nothing again that it has refused for good."
extension World {
  /// How long before its answer to another push a push may have been let through, in seconds.
  private static let underWay = 0.5
  /// How long it takes to store when a notification is due, in seconds.
  private static let storing = 10.0
  /// How long a clock that was wrong has consequences, in seconds: it is doubted for ten minutes, and queues are
  /// corrected two minutes later.
  static let clockMemory = 800.0

  /// A node sends something to a provider.
  func asks(_ question: Question) {
    guard violation == nil, question.isPush, question.life.isAlive else { return }
    let ear = AnswersHeard.Ear(life: question.life.number, subject: question.recipient)
    if let pause = answersHeard.pausesOfTokens[ear], isTooSoon(pause) {
      return violate(
        "nothing is sent before its time",
        "\(question.life.node) sends to \(question.recipient.route) \(Self.seconds(pause.until - time)) s too soon for the token"
      )
    }
    guard let written = ledger.messages[String(question.label.prefix { $0 != "." })] else { return }
    let notification = AnswersHeard.Notification(label: question.label, token: question.recipient.token)
    guard let pause = answersHeard.pausesOfNotifications[notification], ledger.lostCommitAt < written,
      isTooSoon(pause, underWay: 0)
    else { return }
    let couldStore = !pause.life.disturbances.contains {
      $0 >= pause.heardAt && $0 < pause.heardAt + Self.storing
    }
    guard couldStore else { return }
    guard pause.until < .infinity else {
      return violate(
        "what is refused is not sent again",
        "\(question.label) is sent again by \(question.life.node), \(Self.seconds(time - pause.heardAt)) s after it was refused"
      )
    }
    violate(
      "nothing is sent before its time",
      "\(question.label) is sent again \(Self.seconds(pause.until - time)) s too soon by \(question.life.node)"
    )
  }

  private func isTooSoon(_ pause: AnswersHeard.Pause, underWay: Double = underWay) -> Bool {
    guard time > pause.heardAt + underWay, time < pause.until - (pause.isDate ? 1.1 : 0.1) else {
      return false
    }
    return ledger.clockTroubleAt < pause.heardAt - Self.clockMemory && nodes.allSatisfy { $0.life.skew == 0 }
  }

  private static func seconds(_ value: Double) -> String { String(format: "%.1f", value) }

  /// A node hears the answer.
  func hears(_ answer: Result<ProviderResponse, TransportFailure>, to question: Question) {
    let recipient = question.recipient
    guard question.isPush, question.life.isAlive else { return }
    guard case .success(let response) = answer else {
      if case .failure(.unconnected(.connectFailed)) = answer { return }
      answersHeard.refusedAt[recipient.token] = time
      return
    }
    let ear = AnswersHeard.Ear(
      life: question.life.number, subject: Ledger.fingerprint(of: recipient.token))
    if response.status != 200 {
      let meaning = Meaning(response, of: question.provider)
      answersHeard.said[ear, default: [:]][meaning] = time
      let notification = AnswersHeard.Notification(label: question.label, token: recipient.token)
      answersHeard.pausesOfNotifications[notification] =
        meaning == .later
        ? nil : AnswersHeard.Pause(life: question.life, heardAt: time, until: .infinity, isDate: false)
    }
    switch response.status {
    // That one is not about a token.
    case 429 where String(buffer: response.body).contains("TooManyProviderTokenUpdates"): break
    case 429: hearsPause(response, question, else: question.provider == .apns ? 5 : 60)
    case 500...: hearsPause(response, question, else: 0)
    case 401 where question.provider == .fcm: answersHeard.refusedAt[recipient.token] = time
    // Our own key's trouble.
    case 403 where question.provider == .apns: break
    default: hearsOfToken(response.status, question)
    }
  }

  private func hearsPause(_ response: ProviderResponse, _ question: Question, else usual: Double) {
    let isOfToken = response.status == 429
    if isOfToken { answersHeard.refusedAt[question.recipient.token] = time }
    let value = response.headers.first(name: "retry-after")
    let seconds = value.map { text in
      Double(text) ?? RetryAfter.parse(text).map { $0.timeIntervalSince1970 - Self.epoch - time } ?? usual
    }
    // The upstream bouncer always names a time.
    guard let pause = seconds ?? (question.provider == .upstream ? nil : usual), pause > 0 else { return }
    let ear = AnswersHeard.Ear(life: question.life.number, subject: question.recipient)
    let notification = AnswersHeard.Notification(label: question.label, token: question.recipient.token)
    var heard = AnswersHeard.Pause(
      life: question.life, heardAt: time, until: time + min(pause, RetryAfter.limit),
      isDate: value?.contains(":") == true)
    // A clock that is ahead postpones as much further.
    answersHeard.latestPause = max(answersHeard.latestPause, heard.until + max(0, question.life.ahead()))
    answersHeard.pausesOfNotifications[notification] = heard
    guard isOfToken else { return }
    heard.until = max(heard.until, answersHeard.pausesOfTokens[ear]?.until ?? 0)
    answersHeard.pausesOfTokens[ear] = heard
  }

  /// The provider has taken a push, or said that its token or itself is wrong: it no longer refuses the token.
  private func hearsOfToken(_ status: Int, _ question: Question) {
    let (life, recipient) = (question.life.number, question.recipient)
    answersHeard.refusedAt[recipient.token] = nil
    answersHeard.pausesOfTokens[.init(life: life, subject: recipient)] = nil
    guard status == 200 else { return }
    answersHeard.proven.insert(
      .init(life: life, subject: "\(recipient.route) \(question.kind)"))
    // If all that was sent for a while was refused, the route was to blame: one delivery ends all pauses.
    let taken = AnswersHeard.Ear(life: life, subject: recipient.route)
    if time - answersHeard.takenAt[taken, default: -.infinity] >= 10 {
      answersHeard.pausesOfTokens = answersHeard.pausesOfTokens.filter {
        $0.key.life != life || $0.key.subject.route != recipient.route
      }
    }
    answersHeard.takenAt[taken] = time
  }
}
