import Basics
import Delivery
import Foundation
package import HTTP
import Providers

/// The health of the service and its parts at one moment: `/readyz` reports it as JSON, `/admin` in
/// sentences.
package struct Health: Sendable {
  /// Ordered from good to bad.
  package enum Status: Sendable, Comparable, CaseIterable {
    case ready
    /// Something does not work, but requests are accepted.
    case degraded
    /// Requests cannot be accepted: no database, no bouncer key, or shutting down.
    case unavailable
  }

  /// The health of one part.
  struct Check: Sendable {
    let name: String
    /// The effect of this part on the service's status.
    var status = Status.ready
    /// The state in `/readyz`: `ok`, `failing`, `open`, `degraded`, `draining`, or `unknown` before the first
    /// use.
    var state = "ok"
    /// What is wrong, to be joined with other summaries into the page's first sentence.
    var summary = ""
    /// A name for programs: the provider's for the reason, or this program's own.
    var reason: String?
    /// The topic or project of the failing route.
    var target: String?
    var since: Date?
    /// What is wrong and what it means, in sentences.
    var meaning: String?
    var advice: String?
    /// Key files that cannot be used.
    var files: [KeyFolder.Problem] = []
    /// More members for the part's object in `/readyz`.
    var details = JSON.Object()

    var isWell: Bool { state == "ok" || state == "unknown" }

    /// Marks the part as failing for a provider's reason, with the reason's explanation.
    ///
    /// - Parameter credential: the route's name, for advice that names it.
    mutating func fail(
      _ reason: Reason, _ state: String = "failing", on target: String? = nil, since: Date,
      of credential: String? = nil
    ) {
      let explanation = reason.explanation(for: credential)
      self.status = .degraded
      self.state = state
      self.reason = reason.rawValue
      self.target = target
      self.since = since
      meaning = explanation.meaning
      advice = explanation.advice
    }

    var json: JSON {
      let report = StatusReport(
        state, target: target, since: since, reason: reason, meaning: meaning, advice: advice)
      var json = report.json.withoutNulls
      if !files.isEmpty {
        json["problems"] = .array(
          files.map { ["file": .string($0.file), "problem": .string($0.message)] })
      }
      for member in details.members { json[member.name.text] = member.value }
      return .object(json)
    }
  }

  /// A route, with the number of notifications that wait for it.
  struct RouteHealth: Sendable {
    let route: Route
    let state: PushProviders.RouteState
    let waiting: Int
    /// Deletions held back on it.
    var held = 0
  }

  let at: Date
  let checks: [Check]
  /// Ordered by name, without the routes to push services.
  let routes: [RouteHealth]
  /// nil if Web Push is switched off.
  let pushServices: PushServices?
  /// Notifications in the outbox.
  let waiting: Int
  /// What no credential serves, by app or project.
  var unserved: [UnservedReport] = []

  package var status: Status { checks.map(\.status).max() ?? .ready }

  package var json: JSON {
    [
      "status": .string("\(status)"),
      "checks": .object(JSON.Object(checks.map { .init($0.name, $0.json) })),
    ]
  }
}

extension Reason {
  /// The explanation for a credential, whose name stands in the advice.
  fileprivate func explanation(for credential: String?) -> Explanation {
    guard self == .deletionsHeld, let credential else { return explanation }
    return explanation.advising(.heldDeletions(on: credential))
  }
}

extension JSON.Object {
  /// The members whose value is known.
  var withoutNulls: JSON.Object { JSON.Object(members.filter { $0.value != .null }) }
}

extension PushProviders.RouteState {
  /// Whether the route is paused and only probed with single notifications.
  var isOpen: Bool { if case .open = self { true } else { false } }
}

// MARK: In sentences

extension Health {
  /// A problem that one or more parts have in common.
  struct Problem: Hashable {
    /// The affected parts, each with the time since which it is affected.
    let parts: [String]
    let sentence: String
    let advice: String?
  }

  /// Every failing route, with all of Web Push as one route.
  private var failures: [(route: Route, reason: Reason, since: Date, waiting: Int, held: Int)] {
    let webPush = pushServices.flatMap { services in
      services.outage.map { (Route.webPush, $0.reason, $0.since, services.waiting, services.held) }
    }
    return [webPush].compactMap(\.self)
      + routes.compactMap { route in
        route.state.failure.map { (route.route, $0.reason, $0.since, route.waiting, route.held) }
      }
  }

  /// Failing checks that ``failures`` does not already cover.
  private var causes: [Check] {
    let told = Set(
      failures.map { "\(Route(provider: $0.route.provider, credential: $0.route.credential, target: ""))" })
    return checks.filter {
      !$0.isWell && $0.name != "outbox" && $0.name != Self.unservedName && !told.contains($0.name)
    }
  }

  private var outbox: Check? { checks.first { $0.name == "outbox" && !$0.isWell } }

  /// All problems, causes before their consequences.
  var problems: [Problem] {
    // Routes that fail for the same reason share one explanation.
    let routes = Dictionary(grouping: failures, by: \.reason).sorted { $0.key.rawValue < $1.key.rawValue }
    return causes.map(problem) + unservedProblems
      + routes.map { reason, routes in
        let credentials = Set(routes.map { "\($0.route.provider.rawValue):\($0.route.credential)" })
        let explanation = reason.explanation(for: credentials.count == 1 ? credentials.first : nil)
        return Problem(
          parts: routes.sorted { "\($0.route)" < "\($1.route)" }.map {
            lasting("\($0.route)", since: $0.since)
              + ($0.held == 0 ? "" : ", \(Phrase.count($0.held, "deletion")) held back")
              + ($0.waiting == 0 ? "" : ", \(Self.wait($0.waiting))")
          },
          sentence: "\(explanation.meaning) (\(reason))", advice: explanation.advice)
      } + [outbox].compactMap { $0.map(problem) }
  }

  /// The state of the service in a few words.
  var summary: String {
    var phrases = causes.map(\.summary)
    let failing = failures.count { $0.reason != .deletionsHeld }
    let held = failures.reduce(0) { $0 + $1.held }
    if !unserved.isEmpty {
      phrases.append(
        "no credential serves \(Phrase.count(unserved.count, "app or project", "apps or projects"))")
    }
    if failing > 0 { phrases.append(Phrase.count(failing, "route does not work", "routes do not work")) }
    if held > 0 { phrases.append("\(Phrase.count(held, "deletion is", "deletions are")) held back") }
    if waiting > 0, failing > 0 || outbox != nil {
      phrases.append(Phrase.count(waiting, "notification waits", "notifications wait"))
    }
    if phrases.isEmpty { return status == .ready ? "everything works" : "something does not work" }
    return phrases.joined(separator: ", ")
  }

  private func problem(_ check: Check) -> Problem {
    let files = check.files.map { "\($0.file): \($0.message)" }.joined(separator: "; ")
    return Problem(
      parts: [check.since.map { lasting(check.name, since: $0) } ?? check.name],
      sentence: [check.meaning, check.reason.map { "(\($0))" }, files.isEmpty ? nil : files]
        .compactMap(\.self).joined(separator: " "),
      advice: check.advice)
  }

  private func lasting(_ part: String, since: Date) -> String {
    "\(part) for \(Phrase.duration(at.timeIntervalSince(since))) (since \(since.time(at: at)))"
  }

  private static func wait(_ count: Int) -> String {
    "\(Phrase.number(count)) \(count == 1 ? "waits" : "wait")"
  }
}

extension Date {
  /// `18:42:02 UTC`, with the date unless it is today.
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
