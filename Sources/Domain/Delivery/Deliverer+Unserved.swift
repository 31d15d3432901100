import Foundation
import Logging
import Providers
import Registrations

/// Handling of pushes whose app or Firebase project no credential serves, most often because a name in `Keys` is mistyped.
extension Deliverer {
  /// Queues the unserved pushes of registrations to which something was delivered before: their key is missing by mistake,
  /// and may come back. Others stay refused. Both are reported.
  func holdUnserved(_ decisions: inout [Decision], of deliveries: [RegisteredPush]) async {
    let unserved = decisions.indices.filter { decisions[$0].result == .refused(.unconfigured) }
    guard !unserved.isEmpty else { return }
    // If the database does not answer, all of them are queued, so that none is lost.
    let proven = try? await registrations.delivered(unserved.map { deliveries[$0].registration.id })
    for index in unserved {
      let delivery = deliveries[index]
      reportUnserved(delivery, count: 1)
      if proven?.contains(delivery.registration.id) ?? true {
        decisions[index] = decisionToWait(on: delivery.push.unservedRoute)
      } else {
        history?.count(.unconfigured(delivery.push.provider))
      }
    }
  }

  /// The decision for a push that waits until a credential serves it.
  func decisionToWait(on route: Route) -> Decision {
    history?.count(.postponed(route.counted, .unconfigured))
    return Decision(
      result: .queued, route: route,
      retry: Retry(notBefore: nil, scope: .route, reason: .unconfigured, backoff: .unserved))
  }

  /// Counts a push that no credential serves, and logs its target once an hour.
  ///
  /// - Parameter count: 1 for a new push; 0 for one that was counted before and still waits.
  func reportUnserved(_ delivery: RegisteredPush, count: Int) {
    let route = delivery.push.unservedRoute
    var target = UnservedTargets.Target(route, delivery.registration.wire)
    if let environment = delivery.push.environment, providers.serves(route) {
      target.environment = environment
    }
    guard unservedTargets.record(target, count, of: delivery.owner, now: now()) else { return }
    let reports = unserved()
    guard
      let report = reports.first(where: { $0.target == target })
        ?? reports.first(where: { $0.target == target.others })
    else { return }
    logger.warning(
      "\(report.sentence)",
      metadata: [
        "target": "\(report.target)", "kind": "\(delivery.registration.wire)",
        "reason": "\(Reason.unconfigured)",
        "advice": .stringConvertible(report.advice),
      ])
  }

  /// The apps and projects that no credential serves, with the notifications that came for them in the last hour or wait.
  /// The ones with the most are first.
  package func unserved() -> [UnservedReport] {
    var reports = unservedTargets.counts(now: now()).filter { !isServed($0.key) }
      .reduce(into: [UnservedTargets.Target: UnservedReport]()) { reports, entry in
        reports[entry.key] = UnservedReport(target: entry.key, came: entry.value, waiting: 0)
      }
    // What waits for a key of an environment waits at a topic that another key serves.
    for (share, count) in outbox.depth.unconfigured where providers.serves(share.queue.route) {
      let target = UnservedTargets.Target(share.queue.route, share.wire)
      for environment in APNsCredential.Environment.allCases {
        var target = target
        target.environment = environment
        reports[target]?.waiting += count
      }
    }
    for (share, count) in outbox.depth.shares where !share.queue.route.isOfHost {
      let target = UnservedTargets.Target(share.queue.route, share.wire)
      guard !providers.serves(share.queue.route) else { continue }
      reports[target, default: UnservedReport(target: target, came: 0, waiting: 0)].waiting += count
    }
    return reports.values.filter { $0.came + $0.waiting > 0 }.map { report in
      var report = report
      report.alike = report.target.route.flatMap(providers.targetAlike)
      return report
    }.sorted { ($1.came + $1.waiting, "\($0.target)") < ($0.came + $0.waiting, "\($1.target)") }
  }

  private func isServed(_ target: UnservedTargets.Target) -> Bool {
    target.route.map { providers.serves($0, in: target.environment) } ?? false
  }
}

/// A report about one app or project that no credential serves.
package struct UnservedReport: Sendable, Hashable {
  package let target: UnservedTargets.Target
  /// Number of notifications that came in the last hour, including those that wait.
  package let came: Int
  /// Number of notifications that wait for a credential.
  package var waiting: Int
  /// A name in `Keys` that differs only by upper and lower case.
  var alike: String?

  /// - Parameter alike: a name in `Keys` that differs only by upper and lower case.
  package init(target: UnservedTargets.Target, came: Int = 0, waiting: Int = 0, alike: String? = nil) {
    self.target = target
    self.came = came
    self.waiting = waiting
    self.alike = alike
  }

  /// A sentence that says what came and what is missing.
  package var sentence: String {
    func notifications(_ count: Int) -> String { "\(count) \(count == 1 ? "notification" : "notifications")" }
    let here = "\(notifications(came)) for \(target.name) came in the last hour"
    let waits = "\(notifications(waiting)) for \(target.name) \(waiting == 1 ? "waits" : "wait")"
    return switch (came, waiting) {
    case (_, 0): "\(here); \(target.lack)"
    case (0, _): "\(waits); \(target.lack)"
    default: "\(here), and \(waiting) \(waiting == 1 ? "waits" : "wait"); \(target.lack)"
    }
  }

  /// The advice for the operator.
  package var advice: String {
    let hint = alike.map { "\($0) is listed, which differs in upper and lower case only: " } ?? ""
    return hint + target.advice
  }

  /// Whether the service is at fault. It is not where anybody names the hosts, nor for devices that anybody can register.
  package var isFault: Bool { !target.provider.definition.hasHosts && !target.isUntrusted }
}

extension UnservedTargets.Target {
  /// The target's name in a sentence.
  package var name: String {
    guard let text else { return "further apps" }
    return (text.isEmpty ? provider.definition.namelessTarget : text)
      + (environment.map { " in Apple's \($0.rawValue)" } ?? "")
  }

  /// A clause that says what is missing.
  package var lack: String { provider.definition.lack(isSeveral: isOthers, in: environment) }

  fileprivate var advice: String { provider.definition.advice(forLackIn: environment) }
}
