import Basics
import Crypto
import Delivery
import Foundation
import HTTP
package import HTTPClient
import NIOCore
import Platform
package import Providers
import SQL
import Sealing

extension Doctor {
  /// Longer than a connection or a sign-in may take, whose failure then says why.
  private static let timeout = Duration.seconds(15)
  /// Sends a push to a token that cannot exist, with every credential and topic. A provider that works
  /// refuses the token and nothing else. What has one cause is one finding.
  ///
  /// - Parameters:
  ///   - faults: names of failed checks without which no provider can be called.
  ///   - clockAhead: seconds by which the clock is ahead; nil if not known.
  func providerFindings(
    _ credentials: Credentials, unless faults: [String] = [], clockAhead: @Sendable () async -> Int? = { nil }
  ) async -> [Finding] {
    guard faults.isEmpty else {
      return [
        .skipped(
          "providers", "not asked: fix this first: \(faults.joined(separator: ", "))")
      ]
    }
    let directory = configuration.keys.directory
    let types = Credentials.types
    guard !credentials.all.isEmpty || configuration.webPush.isEnabled else {
      let folders = types.map { "\(directory)/\($0.provider.rawValue)" }.joined(separator: " or ")
      let files = types.map { "your \($0.owner) \($0.noun)" }.joined(separator: " or ")
      return [
        .bad(
          "providers", "no credential in \(folders): nothing can be delivered",
          advice: "put \(files) there; \(directory)/README.md says how")
      ]
    }
    return await withTaskGroup(of: Trial.self) { tasks in
      for credential in credentials.all {
        for trial in credential.trials { tasks.addTask { await self.trial(trial, of: credential) } }
      }
      var findings = types.filter { credentials[$0.provider].isEmpty }.map {
        Finding.skipped($0.provider.rawValue, "no \($0.noun) in \(directory)/\($0.provider.rawValue)")
      }
      if configuration.isDelivering, credentials.all.isEmpty {
        let shortage = KeyFolder.Shortage.storeCredential
        findings.append(.warning("providers", shortage.problem, advice: shortage.advice))
      }
      var trials: [Trial] = []
      for await trial in tasks { trials.append(trial) }
      findings += Self.findings(trials, clockAhead: await clockAhead())
      findings += Self.keyExchangeFindings(trials)
      return findings.sorted { ($0.check, $0.detail) < ($1.check, $1.detail) }
    }
  }

  /// A push with one credential to one topic or project.
  struct Trial {
    let provider: Route.Provider
    let check: String
    let target: String
    let result: Result<Outcome, Fault>
    /// Set for APNs.
    var environment: APNsCredential.Environment?
    /// How the keys of the TLS connection were agreed on; nil if there was none.
    var keyExchange: KeyExchange?
  }

  /// Each credential is used on its own: another one of the same app may be of another environment.
  private func trial(_ trial: CredentialTrial, of credential: any ProviderCredential) async -> Trial {
    let provider = trial.push.provider
    do {
      let providers = try PushProviders(configuration: .init(configuration))
      providers.use(Credentials([credential]))
      let outcome = await providers.sendOnce(trial.push, within: Self.timeout)
      let keyExchange = providers.keyExchange(provider)
      await providers.shutdown(within: .zero)
      return Trial(
        provider: provider, check: credential.route, target: trial.target, result: .success(outcome),
        environment: trial.environment, keyExchange: keyExchange)
    } catch {
      return Trial(
        provider: provider, check: credential.route, target: trial.target, result: .failure(Fault(error)))
    }
  }

  /// Which connections use a post-quantum key exchange, so that traffic recorded today stays secret. The provider chooses:
  /// none is a fault here.
  static func keyExchangeFindings(_ trials: [Trial]) -> [Finding] {
    let known = trials.filter { $0.keyExchange != nil }
    guard !known.isEmpty else { return [] }
    func names(_ trials: [Trial]) -> String { Set(trials.map(\.check)).sorted().joined(separator: ", ") }
    let with = known.filter { $0.keyExchange?.isPostQuantum == true }
    let without = known.filter { $0.keyExchange?.isPostQuantum == false }
    let good = names(with)
    let bad = names(without)
    let group = KeyExchange.x25519MLKEM768.rawValue
    let detail =
      without.isEmpty
      ? "\(group), which a quantum computer does not break, with \(good)"
      : "no \(group) with \(bad): recorded traffic there could be read with a quantum computer"
        + (with.isEmpty ? "" : "; with \(good) there is")
    return [.good("key exchange", detail)]
  }

  /// What makes trials one finding.
  private enum Cause: Hashable {
    case works(check: String)
    /// Of a credential; nil if the provider cannot be reached with any.
    case reason(Reason, Route.Provider, check: String?)
    case fault(Fault)
  }

  /// What the outcomes of such pushes say about their credentials and topics.
  static func findings(_ trials: [Trial], clockAhead: Int? = nil) -> [Finding] {
    let causes = Dictionary(grouping: trials) { trial -> Cause in
      switch trial.result {
      case .failure(let fault): return .fault(fault)
      case .success(.delivered), .success(.passedOn), .success(.dead), .success(.suspect):
        return .works(check: trial.check)
      case .success(.retry(let reason, _, _)), .success(.misconfigured(let reason)),
        .success(.rejected(let reason)):
        return .reason(reason, trial.provider, check: reason.isOfConnection ? nil : trial.check)
      }
    }
    return causes.map { cause, trials -> Finding in
      let check = Set(trials.map(\.check)).sorted().joined(separator: ", ")
      let targets = Set(trials.map(\.target)).sorted().joined(separator: ", ")
      switch cause {
      case .works:
        let isSandbox = trials.allSatisfy { $0.environment == .sandbox }
        return .good(check, "serves \(targets)\(isSandbox ? " in the sandbox, for apps run from Xcode" : "")")
      case .fault(let fault): return .bad(check, fault)
      case .reason(let reason, let provider, _):
        let explanation = reason.explanation(at: provider)
        return .bad(
          check, "\(targets): \(reason): \(explanation.meaning)",
          advice: explanation.advice(clockAhead: clockAhead))
      }
    }
  }

  /// Compares the clock with FCM's, since Apple and Google refuse tokens from a wrong clock, and with the
  /// newest time in the database.
  func clockFinding(asksDatabase: Bool = true) async -> Finding {
    await clockFinding(ahead: await secondsAhead(), asksDatabase: asksDatabase)
  }

  /// Seconds by which the clock is ahead of FCM's, negative if it is behind; nil if FCM does not answer.
  func secondsAhead() async -> Int? {
    let theirs = await providerTime()
    return theirs.map { Int(now().timeIntervalSince($0).rounded()) }
  }

  func clockFinding(ahead: Int?, asksDatabase: Bool) async -> Finding {
    let now = now()
    let seconds = ahead ?? 0
    guard abs(seconds) <= 60 else {
      return .bad(
        "clock", "is \(abs(seconds)) seconds \(seconds > 0 ? "ahead" : "behind")",
        advice: "synchronise it, with systemd-timesyncd or chrony for example")
    }
    let isRight = ahead == nil ? "could not be compared: FCM did not tell the time" : "is right"
    var clock = ClockGuard(.init(wall: now, monotonic: .zero))
    clock.compareWithDatabase(asksDatabase ? await newestTime() : nil, .init(wall: now, monotonic: .zero))
    switch clock.doubt?.reason {
    case nil: return ahead == nil ? .skipped("clock", isRight) : .good("clock", isRight)
    case .ahead(let seconds):
      return .good(
        "clock",
        """
        \(isRight); the service has not run by a clock that it trusts for \(ClockDoubt.text(seconds)): nothing expires \
        for its first ten minutes, or until push-bouncer clock trust
        """)
    case .behind(let seconds), .jumped(let seconds):
      return .bad(
        "clock", "is \(ClockDoubt.text(seconds)) behind the newest time in the database: nothing expires",
        advice: "set the clock; if it is right, run push-bouncer clock trust")
    }
  }

  private func newestTime() async -> Date? {
    guard let database = await visit.existing() else { return nil }
    // There is no recorded time before the first start.
    return try? await ClockRecord(database: database).newest()
  }
}

extension PushProviders.Configuration {
  /// The providers' addresses, from the configuration.
  package init(_ configuration: Configuration) {
    self.init(
      endpoints: configuration.endpoints, caFile: configuration.providers.caFile,
      proxy: configuration.providers.proxy)
  }
}

extension Doctor {
  /// The result of a call to one of the operator's own push services.
  package enum PushServiceAnswer: Sendable, Hashable {
    /// Its certificate is trusted, and it answers.
    case answered
    case failed(ConnectionFailure)
    /// It takes the connection and does not answer.
    case silent
  }

  /// Checks whether Web Push is on, its key pair and contact, and the operator's own push services.
  ///
  /// - Parameter asksDatabase: whether the database can be used.
  func webPushFindings(asksDatabase: Bool = true) async -> [Finding] {
    guard configuration.webPush.isEnabled else { return [.skipped("webpush", "webpush.enabled is false")] }
    let key =
      asksDatabase
      ? await vapidFinding()
      : .skipped("webpush", "it is on; its key pair is in the database, which cannot be used")
    let hosts = Set(configuration.webPush.privateHosts).sorted()
    let services = await withTaskGroup { tasks in
      for host in hosts { tasks.addTask { finding(of: host, await pushService(host)) } }
      var findings: [Finding] = []
      for await finding in tasks { findings.append(finding) }
      return findings.sorted { $0.check < $1.check }
    }
    return [key, contactFinding()] + services
  }

  /// Checks the key pair without creating one, which `serve` does.
  private func vapidFinding() async -> Finding {
    let path = "/api/v1/zulip-services/webpush/vapid"
    let place =
      configuration.http.publicURL.map { "apps get it at \($0)\(path)" }
      ?? "apps get it at \(path) of this service"
    let none = Finding.good("webpush", "it is on; serve makes its VAPID key pair, and \(place)")
    guard let storageKey = try? KeyFolder.existingStorageKey(in: configuration.keys.directory),
      let database = await database()
    else { return none }
    do {
      let keys = VAPIDKeys(database: database, storageKey: storageKey, now: now)
      guard let key = try await keys.find() else { return none }
      let digest = SHA256.hash(data: Array(key.publicKey.utf8)).prefix(4)
      let fingerprint = digest.map { String(format: "%02x", $0) }.joined()
      return .good(
        "webpush", "it is on; the VAPID public key has the fingerprint \(fingerprint), and \(place)")
    } catch {
      return .bad(
        "webpush", "the VAPID key pair in the database does not open with this storage.key",
        advice: """
          put the storage.key back that the database was sealed with; every subscription was made with that key pair, so \
          no other is made in its place
          """)
    }
  }

  /// Checks the contact for push services: most deliver without one, some refuse senders whom they cannot write to.
  private func contactFinding() -> Finding {
    let check = "webpush.contact"
    let isOwn = configuration.webPush.contact != nil || configuration.operator.email != nil
    if isOwn, let contact = configuration.webPushContact {
      return .good(check, "push services may write to \(contact)")
    }
    return .warning(
      check,
      configuration.webPushContact.map {
        "push services are told \($0) only, and no address that they may write to"
      }
        ?? "push services get no contact, and some refuse senders without one",
      advice: "set operator.email, or webpush.contact to mailto: and an address")
  }

  private func finding(of host: String, _ answer: PushServiceAnswer) -> Finding {
    let check = "webpush:\(host)"
    switch answer {
    case .answered: return .good(check, "answers, with a certificate that is trusted")
    case .failed(.connectionRefused):
      return .skipped(
        check, "nothing listens on its port 443; its certificate cannot be checked on another port")
    case .failed(.nameNotResolved):
      return .bad(
        check, "has no address",
        advice: "check its name in webpush.allow_private_hosts, and this machine's name resolution")
    case .failed(.certificateUntrusted), .failed(.certificateNameMismatch):
      return .bad(
        check,
        answer == .failed(.certificateUntrusted)
          ? "its certificate has expired, or is of an authority that this machine does not know"
          : "its certificate is another host's",
        advice: """
          give it a certificate of its name from an authority that this machine trusts, or name your own authority in \
          providers.ca_file
          """)
    case .failed(let failure):
      let explanation = failure.explanation(of: "The push service")
      return .bad(
        check, "\(failure.rawValue): \(explanation.meaning)", advice: explanation.advice)
    case .silent:
      return .bad(check, "does not answer", advice: "check that it runs, and the network in between")
    }
  }
}
