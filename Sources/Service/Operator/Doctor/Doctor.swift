import Basics
import Delivery
package import Foundation
import Logging
import Migrations
package import Platform
import Providers
import Registrations
import SQL
import Sealing
import ZulipBouncer

/// Checks everything that the service depends on, without changing anything, and says how to fix each fault.
package struct Doctor: Sendable {
  let configuration: Configuration
  let now: @Sendable () -> Date
  let providerTime: @Sendable () async -> Date?
  let pushService: @Sendable (String) async -> PushServiceAnswer
  let running: @Sendable () async -> ReportedState?
  let mounts: String

  let visit: DatabaseVisit
  private let checks: [StartCheck]

  /// - Parameters:
  ///   - checks: the checks that `serve` makes before it starts, on the same database connection.
  ///   - descriptors: this process's limit, which is also the service's if both are started the same way.
  ///   - providerTime: asks FCM for its time; nil if it does not answer.
  ///   - pushService: calls one of the operator's own push services, by its host name.
  ///   - running: what the service that runs already says; nil without an answer.
  ///   - mounts: the kernel's table of mounts; nil for the one of this process.
  package init(
    _ configuration: Configuration, checks: ((DatabaseVisit) -> [StartCheck])? = nil,
    now: @escaping @Sendable () -> Date = { Date() }, descriptors: DescriptorLimit = .raised(),
    providerTime: @escaping @Sendable () async -> Date?,
    pushService: @escaping @Sendable (String) async -> PushServiceAnswer = { _ in .answered },
    running: @escaping @Sendable () async -> ReportedState? = { nil }, mounts: String? = nil
  ) {
    self.configuration = configuration
    visit = DatabaseVisit(configuration.database.url)
    self.checks =
      checks?(visit) ?? StartCheck.basics(configuration, descriptors: descriptors, visit: visit, now: now)
    self.now = now
    self.providerTime = providerTime
    self.pushService = pushService
    self.running = running
    self.mounts = mounts ?? Mount.table
  }

  /// Makes all checks. Takes as long as the providers take to answer, 15 seconds at most.
  ///
  /// - Parameter progress: is called with the name of each check before it begins.
  package func examine(progress: @Sendable (String) -> Void = { _ in }) async -> [Finding] {
    var findings = [Finding.good("configuration", "can be read")]
    for check in checks {
      progress(check.name)
      findings.append(await check.finding())
    }
    let faults = Set(findings.filter { !$0.isGood }.map(\.check))

    progress("keys")
    let folder = KeyFolder(
      directory: configuration.keys.directory, defaultProject: configuration.fcm.defaultProject,
      logger: Logger(label: "doctor") { _ in SwiftLogNoOpLogHandler() })
    let snapshot = folder.load()
    if KeyFolder.closed(configuration.keys.directory) == nil {
      findings += keyFindings(snapshot)
      findings.append(permissionFinding())
    } else {
      findings.append(.skipped("keys", "\(configuration.keys.directory) cannot be listed"))
    }
    if faults.contains("database") {
      findings.append(.skipped("deletions held back", "the database cannot be used"))
    } else {
      findings += await durabilityFindings()
      findings += await heldFindings()
      findings += await unservedFindings(snapshot.credentials)
    }
    progress("the clock and the providers")
    let ahead = Task { await secondsAhead() }
    async let clock = clockFinding(ahead: await ahead.value, asksDatabase: !faults.contains("database"))
    async let webPush = webPushFindings(asksDatabase: !faults.contains("database"))
    async let links = linkFindings()
    async let routes = providerFindings(
      snapshot.credentials,
      unless: faults.intersection(["providers", "providers.ca_file", "storage.key"]).sorted(),
      clockAhead: { await ahead.value })
    findings.append(await publicURLFinding(asksDatabase: !faults.contains("database")))
    findings += await runningFindings()
    findings.append(await clock)
    findings += await routes
    findings += await webPush
    findings += await links
    await visit.close()
    return findings
  }
}

extension Doctor {
  func keyFindings(_ snapshot: KeyFolder.Snapshot) -> [Finding] {
    let directory = configuration.keys.directory
    var findings = snapshot.problems.map { problem in
      Finding.bad(
        "keys", "\(directory)/\(problem.file): \(problem.message)",
        advice: "correct that file or remove it; it is read again by itself")
    }
    let unread = KeyFolder.unreadFiles(in: directory).map { "\(directory)/\($0)" }
    if !unread.isEmpty {
      findings.append(
        .warning(
          "keys", "these files are not read: \(unread.joined(separator: ", "))",
          advice:
            "give a credential's file a name that ends with .json, name Apple's key as key_file in one, and remove the rest"
        ))
    }
    let keys = snapshot.bouncer.all
    if keys.isEmpty {
      // A new key would be no help: the phones' registrations are sealed to the one that cannot be read.
      guard !snapshot.problems.contains(where: { $0.file.hasPrefix("bouncer") }) else { return findings }
      findings.append(
        .bad("keys", "no bouncer key in \(directory)", advice: "make one: push-bouncer keys generate"))
    } else if !keys.contains(where: { $0.state == .active }) {
      findings.append(
        .bad("keys", "every bouncer key is retired", advice: "make a new one: push-bouncer keys generate"))
    } else if snapshot.problems.isEmpty {
      findings.append(.good("keys", Phrase.count(keys.count, "bouncer key")))
    }
    return findings
  }

  func permissionFinding() -> Finding {
    let directory = configuration.keys.directory
    let exposed = KeyFolder.exposedFiles(in: directory).map { "\(directory)/\($0)" }
    guard !exposed.isEmpty else { return .good("permissions", "nobody else can read the keys") }
    return .warning(
      "permissions", "others can read \(exposed.joined(separator: ", "))",
      advice: "chmod 600 \(exposed.joined(separator: " "))")
  }

}

extension Doctor {
  /// Reports what only the service that runs knows: that it serves with other settings, that the database which it has
  /// open is gone, and what its proxies have sent within an hour.
  func runningFindings() async -> [Finding] {
    guard let state = await running() else { return [] }
    let findings = ["database", Readiness.forwardingName].compactMap { name -> Finding? in
      guard let check = state.health.checks[name], let meaning = check.meaning else { return nil }
      return .bad(name, meaning, advice: check.advice ?? "")
    }
    let differences = configuration.differences(in: state.settings)
    return (differences.isEmpty ? [] : [finding(of: differences)]) + findings
  }

  /// At most eight of them are named.
  private func finding(of differences: [(key: String, value: String)]) -> Finding {
    let shown = differences.prefix(8).map { "\($0.key) \($0.value.isEmpty ? "empty" : $0.value)" }
    let left = differences.count - shown.count
    let text = (shown + (left > 0 ? ["\(left) more"] : [])).joined(separator: ", ")
    return .warning(
      "service", "the service that runs has other settings than those that are checked here: \(text)",
      advice: """
        if the file was changed, restart the service; if the service has options or variables of its own, give doctor the \
        same
        """)
  }
}

extension Doctor {
  /// The database; nil unless it is there and has this program's tables. One that cannot be used has its own finding.
  func database() async -> (any Database)? {
    guard let database = await visit.existing(),
      (try? await Migrator.version(of: database)) == Schema.version
    else { return nil }
    return database
  }

  /// Reports each chat server's link to the upstream bouncer, if there is one.
  func linkFindings() async -> [Finding] {
    guard configuration.upstream.url != nil else { return [] }
    guard let storageKey = try? KeyFolder.existingStorageKey(in: configuration.keys.directory),
      let database = await database()
    else { return [.skipped("upstream", "the database cannot be used")] }
    let links = UpstreamLinks(database: database, storageKey: storageKey, now: now)
    var providers = PushProviders.Configuration(configuration)
    providers.upstream = links.provider(at: configuration.upstream.url)
    return await links.findings(providers)
  }
}

extension Doctor {
  /// Reports deletions held back because a provider reported too many tokens as dead; one finding per
  /// credential.
  func heldFindings() async -> [Finding] {
    guard let database = await database() else { return [] }
    let held = (try? await RegistrationStore.held(in: database)) ?? []
    let services = held.filter { $0.provider == "webpush" }
    let routes = Dictionary(grouping: held.filter { $0.provider != "webpush" }) {
      "\($0.provider):\($0.credential)"
    }
    return routes.sorted { $0.key < $1.key }.map { name, held in
      let count = held.map(\.count).reduce(0, +)
      let since = held.map(\.since).min() ?? now()
      return .bad(
        name,
        """
        the deletions of \(count) registrations have been held back since \(since.formatted(.iso8601)), because the \
        provider reported too many tokens as dead at once
        """, advice: Advice.heldDeletions(on: name).text)
    } + (services.isEmpty ? [] : [finding(ofHeldAt: services)])
  }

  /// Anybody may choose a push service, so what these report is not a fault.
  private func finding(ofHeldAt services: [RegistrationStore.Held]) -> Finding {
    let hosts = Set(services.map(\.credential))
    return .good(
      "webpush",
      """
      the deletions of \(services.map(\.count).reduce(0, +)) subscriptions are held back, because \
      \(Phrase.count(hosts.count, "push service")) reported too many as dead at once: a subscription is deleted if its \
      push service reports it again an hour later (push-bouncer routes list)
      """)
  }
}
