internal import Foundation
internal import HTTP
internal import Providers

/// What `/readyz` says, as sentences for people.
struct Verdict {
  /// What is wrong with one or more parts.
  struct Problem: Hashable {
    /// The parts, each with since when it is so.
    let parts: [String]
    /// What is wrong.
    let sentence: String
    /// What to do; nil if that says it.
    let advice: String?
  }

  /// A route that does not work.
  struct FailingRoute {
    let route: Route
    let reason: Reason
    let since: Date
    /// Notifications that wait for it.
    let waiting: Int
  }

  let status: Readiness.Status
  /// Causes first.
  let problems: [Problem]
  /// What is the matter, in a few words.
  let summary: String

  /// - Parameters:
  ///   - waiting: notifications that wait for a provider.
  ///   - canDeliver: there is a credential at all.
  init(
    _ status: Readiness.Status, _ document: JSON, routes: [FailingRoute], waiting: Int, canDeliver: Bool,
    now: Date
  ) {
    self.status = status
    var checks: [Check] = []
    if case .object(let object)? = document["checks"] {
      checks = object.members.compactMap { Check($0.name.text, $0.value) }
    }
    // The routes tell more than the check of their credential.
    let credentials = Set(
      routes.map {
        Route(provider: $0.route.provider, credential: $0.route.credential, target: "").description
      })
    let causes = checks.filter { $0.name != "outbox" && !credentials.contains($0.name) }
    let outbox = checks.filter { $0.name == "outbox" }
    let unconfigured =
      canDeliver
      ? []
      : [
        Problem(
          parts: ["Providers"],
          sentence: "No credential in Keys/apns or Keys/fcm, and no Web Push: nothing can be delivered.",
          advice: "put your Apple key or your Google service account there; Keys/README.md says how")
      ]
    problems =
      causes.map { $0.problem(at: now) } + unconfigured + Self.problems(routes, at: now)
      + outbox.map { $0.problem(at: now) }
    var phrases = causes.map(\.phrase)
    if !canDeliver { phrases.append("nothing can be delivered, for want of a credential") }
    if !routes.isEmpty {
      phrases.append(
        "\(Phrase.count(routes.count, "route")) \(routes.count == 1 ? "does" : "do") not work")
    }
    if waiting > 0, !routes.isEmpty || !outbox.isEmpty {
      phrases.append("\(Phrase.count(waiting, "notification")) \(waiting == 1 ? "waits" : "wait")")
    }
    summary =
      !phrases.isEmpty
      ? phrases.joined(separator: ", ") : status == .ready ? "everything works" : "something does not work"
  }

  /// What fails for the same reason is explained once.
  private static func problems(_ routes: [FailingRoute], at now: Date) -> [Problem] {
    Dictionary(grouping: routes, by: \.reason).sorted { "\($0.key)" < "\($1.key)" }.map { reason, routes in
      let parts = routes.sorted { "\($0.route)" < "\($1.route)" }.map { route in
        let age = Phrase.duration(now.timeIntervalSince(route.since))
        return """
          \(route.route) for \(age) (since \(route.since.time(at: now)))\
          \(route.waiting == 0 ? "" : ", \(Phrase.number(route.waiting)) \(route.waiting == 1 ? "waits" : "wait")")
          """
      }
      let explanation = reason.explanation
      return Problem(
        parts: parts, sentence: "\(explanation.meaning) (\(reason))", advice: explanation.advice)
    }
  }

  /// The light as a word, and its colour.
  var word: (text: String, style: String) {
    switch status {
    case .ready: ("Ready", problems.isEmpty ? "" : "doubtful")
    case .degraded: ("Degraded", "doubtful")
    case .unavailable: ("Unavailable", "bad")
    }
  }
}

/// A part of `/readyz` that is not well.
private struct Check {
  let name: String
  private let reason: String?
  private let meaning: String?
  private let advice: String?
  private let since: Date?
  private let files: [String]

  init?(_ name: String, _ check: JSON) {
    let status = check["status"]?.string ?? ""
    guard !["ok", "unknown"].contains(status) else { return nil }
    self.name = name
    reason = check["reason"]?.string ?? (status == "draining" ? "it is shutting down" : status)
    meaning = check["meaning"]?.string
    advice = check["advice"]?.string
    since = (check["since"]?.string).flatMap { try? Date($0, strategy: .iso8601) }
    var files: [String] = []
    if case .array(let problems)? = check["problems"] {
      files = problems.compactMap { problem in
        guard let file = problem["file"]?.string, let text = problem["problem"]?.string else { return nil }
        return "\(file): \(text)"
      }
    }
    self.files = files
  }

  /// What the check of the database says where nobody answers; the other words are of one that takes nothing.
  private static let silences: Set = [
    "timeout", "closed", "connectionLost", "unreachable", "busy",
  ]

  /// In a few words, for the first sentence.
  var phrase: String {
    switch name {
    case "database" where Self.silences.contains(reason ?? ""):
      "the database does not answer"
    case "database": "the database takes nothing (\(reason ?? ""))"
    case "keys": (reason ?? "").hasPrefix("no bouncer key") ? "there is no bouncer key" : reason ?? name
    case "clock": "the clock is doubted"
    case "certificate": "the new certificate cannot be used"
    case "service": reason ?? name
    default: "\(name) does not work"
    }
  }

  func problem(at now: Date) -> Verdict.Problem {
    let age = since.map {
      " for \(Phrase.duration(now.timeIntervalSince($0))) (since \($0.time(at: now)))"
    }
    let text = meaning.map { meaning in "\(meaning)\(reason.map { " (\($0))" } ?? "")" } ?? reason ?? ""
    return Verdict.Problem(
      parts: ["\(name)\(age ?? "")"], sentence: ([text] + files).joined(separator: "; "), advice: advice)
  }
}

extension Date {
  /// `18:42:02 UTC`, with the day unless it is today's.
  func time(at now: Date) -> String {
    let text = formatted(.iso8601)
    let time = "\(text.dropFirst(11).prefix(8)) UTC"
    return text.prefix(10) == now.formatted(.iso8601).prefix(10) ? time : "\(text.prefix(10)) \(time)"
  }

  /// `2026-11-22 18:43 UTC`
  var minute: String {
    let text = formatted(.iso8601)
    return "\(text.prefix(10)) \(text.dropFirst(11).prefix(5)) UTC"
  }
}
