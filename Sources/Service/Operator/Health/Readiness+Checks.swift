import Basics
import Delivery
import Foundation
import HTTP
import Platform
import Providers
import Registrations
import Sealing

/// What is looked at without asking the database.
extension Readiness {
  /// While the clock is doubted, nothing expires; everything else works.
  func clockCheck() -> Health.Check {
    guard let doubt = clockDoubt() else { return .init(name: "clock") }
    return .init(
      name: "clock", status: .degraded, state: "failing", summary: "the clock is doubted",
      since: doubt.since, meaning: "The clock is doubted: \(doubt). \(ClockDoubt.meaning)",
      advice: ClockDoubt.advice)
  }

  /// A new certificate that cannot be used leaves the previous one in use, which expires one day.
  static func check(_ certificate: ServerCertificate) -> Health.Check {
    var check = Health.Check(name: "certificate")
    check.details["expires_at"] = .string(certificate.life.end.formatted(.iso8601))
    let expiry = certificate.expiry
    if let expiry {
      check.status = .degraded
      check.state = expiry.isOver ? "failing" : "degraded"
      check.summary = "the certificate \(expiry.phrase)"
      check.since = expiry.isOver ? expiry.end : nil
      check.meaning = expiry.meaning
      check.advice = CertificateExpiry.advice
    }
    if let problem = certificate.problem {
      check.status = .degraded
      check.state = "failing"
      check.summary =
        "the new certificate cannot be used" + (expiry.map { ", and the old one \($0.phrase)" } ?? "")
      check.meaning = [expiry?.meaning, "The new certificate cannot be used: \(problem)."]
        .compactMap(\.self).joined(separator: " ")
    }
    return check
  }

  /// A database that is not the one before works; but it may have been put there, or made anew, by mistake.
  func storeCheck() -> [Health.Check] {
    guard let earlier = earlier() else { return [] }
    return [
      .init(
        name: Self.storeName, status: .degraded, state: "failing",
        summary: "the database is not the one before",
        since: earlier.since, meaning: StoreRecord.Earlier.meaning, advice: StoreRecord.Earlier.advice)
    ]
  }

  /// What does not open is kept, and nothing can be sent to it. It counts until the process is restarted.
  func sealedCheck() -> [Health.Check] {
    let columns = unopened().keys.sorted()
    guard !columns.isEmpty else { return [] }
    return [
      .init(
        name: "storage.key", status: .degraded, state: "failing",
        summary: "values in the database cannot be opened",
        meaning: """
          Values of \(columns.joined(separator: ", ")) do not open: moved from other rows, damaged, or sealed with \
          another storage.key. They are kept and not used.
          """,
        advice: "if the database was restored: put the storage.key of the same backup beside it, and restart")
    ]
  }

  /// Only a trusted proxy's header is read, so this is the operator's own to mend.
  func forwardingCheck() -> [Health.Check] {
    guard let unreadable = unreadableForwarding() else { return [] }
    return [
      .init(
        name: Self.forwardingName, status: .degraded, state: "failing",
        summary: "a proxy does not say who calls",
        meaning: """
          X-Forwarded-For of \(unreadable.proxy) has an entry that is no address: \(unreadable.entry). All clients \
          behind that proxy count as one and share one limit.
          """,
        advice: ForwardingFaults.Unreadable.advice)
    ]
  }

  /// The log itself cannot tell this one.
  func logCheck() -> [Health.Check] {
    guard let backlog = logBacklog() else { return [] }
    return [
      .init(
        name: "log", status: .degraded, state: "failing", summary: "the log takes no lines",
        since: backlog.since,
        meaning: """
          Standard error takes no lines: \
          \(backlog.dropped == 0 ? "they wait in memory" : Phrase.count(backlog.dropped, "line was dropped", "lines were dropped")). \
          Everything else works.
          """,
        advice:
          "see to what reads the log: journald, the container's log driver, a stopped terminal, or a full disk"
      )
    ]
  }

  static let databaseName = "database"
  static let storeName = "store"
  /// Name of the check of `X-Forwarded-For`, after the setting that it is about.
  static let forwardingName = "http.trusted_proxies"

  func keysCheck() -> Health.Check {
    let snapshot = keyFolder.current
    let shortage = KeyFolder.Shortage.bouncerKey
    if snapshot.bouncer.isEmpty {
      return .init(
        name: "keys", status: .unavailable, state: "failing", summary: "there is no bouncer key",
        meaning: shortage.meaning, advice: shortage.advice)
    }
    guard !snapshot.problems.isEmpty else { return .init(name: "keys") }
    return .init(
      name: "keys", status: .degraded, state: "failing", summary: "key files cannot be used",
      meaning: "Key files cannot be used; what was loaded before stays in use.", files: snapshot.problems)
  }

  /// Whether there is any way to deliver.
  ///
  /// - Parameter isElsewhere: whether there is one without a credential.
  func credentialCheck(_ credentials: Credentials, isElsewhere: Bool) -> [Health.Check] {
    guard isDelivering, !isElsewhere, credentials.all.isEmpty else { return [] }
    let shortage = KeyFolder.Shortage.credential
    return [
      .init(
        name: "providers", status: .degraded, state: "failing",
        summary: "no provider credentials: nothing can be delivered", meaning: shortage.meaning,
        advice: shortage.advice)
    ]
  }

  /// A credential fails if any of its routes fails.
  func check(
    _ provider: Route.Provider, _ credential: String, _ routes: [Health.RouteHealth]
  ) -> Health.Check {
    func isOwn(_ route: Route) -> Bool { route.provider == provider && route.credential == credential }
    let own = routes.filter { isOwn($0.route) }
    var check = Health.Check(name: "\(provider.rawValue):\(credential)")
    check.summary = "\(check.name) does not work"
    if let failing = own.first(where: { $0.state.failure != nil }), let failure = failing.state.failure {
      check.fail(
        failure.reason, failing.state.isOpen ? "open" : "failing", on: failing.route.target,
        since: failure.since, of: check.name)
    } else if !own.contains(where: { $0.state == .ok }) {
      check.state = "unknown"
    }
    let waiting = outbox.count(of: provider, credential: credential)
    if waiting > 0 { check.details["waiting"] = .integer(Int64(waiting)) }
    let doubts = doubts().filter { isOwn($0.route) }
    let held = doubts.map(\.held).reduce(0, +)
    if held > 0 { check.details["held_deletions"] = .integer(Int64(held)) }
    // Deletions of devices that anybody may register are shown, but do not degrade the service.
    if let doubt = doubts.filter({ $0.wire.isOpen }).min(by: { $0.since < $1.since }) {
      var devices = Health.Check(name: "\(doubt.wire)")
      devices.fail(doubt.shownReason, on: doubt.route.target, since: doubt.since, of: check.name)
      check.details[devices.name] = devices.json
    }
    return check
  }

  /// Anybody may choose a push service, so single failures are listed, and only a failure of Web Push as a
  /// whole degrades the service.
  static func check(_ services: PushServices) -> Health.Check {
    var check = Health.Check(name: "webpush", state: services.working > 0 ? "ok" : "unknown")
    if let outage = services.outage { check.fail(outage.reason, since: outage.since) }
    check.details = [
      "working": .integer(Int64(services.working)), "failing": .integer(Int64(services.failing)),
    ]
    if services.waiting > 0 { check.details["waiting"] = .integer(Int64(services.waiting)) }
    if services.held > 0 { check.details["held_deletions"] = .integer(Int64(services.held)) }
    if !services.listed.isEmpty {
      check.details["failing_services"] = .array(
        services.listed.map { service in
          let reason = service.reason
          let explanation = service.reason.explanation
          var json = StatusReport(
            service.isPaused ? "open" : "failing", since: service.since, reason: reason.rawValue,
            meaning: explanation.meaning, advice: explanation.advice
          ).json.withoutNulls
          json["route"] = .string("\(service.route)")
          json["waiting"] = .integer(Int64(service.waiting))
          return .object(json)
        })
    }
    return check
  }
}
