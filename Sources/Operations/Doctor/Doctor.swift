package import Foundation
internal import Logging
internal import Providers

/// Looks at everything that the service depends on, changes nothing, and says for each fault what to do.
package struct Doctor: Sendable {
  let configuration: Configuration
  let now: @Sendable () -> Date
  let descriptors: DescriptorLimit
  let providerTime: @Sendable () async -> Date?
  let pushService: @Sendable (String) async -> PushServiceAnswer

  private let checks: [StartCheck]

  /// A doctor for the service with this configuration.
  ///
  /// - Parameters:
  ///   - checks: what `serve` looks at before it starts.
  ///   - descriptors: this process's limit, which is the service's where both are started alike.
  ///   - providerTime: asks FCM for the time; nil if it does not tell.
  ///   - pushService: calls a push service of the operator's, by its name.
  package init(
    _ configuration: Configuration, checks: [StartCheck]? = nil,
    now: @escaping @Sendable () -> Date = { Date() }, descriptors: DescriptorLimit = .raised(),
    providerTime: @escaping @Sendable () async -> Date?,
    pushService: @escaping @Sendable (String) async -> PushServiceAnswer = { _ in .answered }
  ) {
    self.configuration = configuration
    self.checks = checks ?? StartCheck.basics(configuration, descriptors: descriptors)
    self.now = now
    self.descriptors = descriptors
    self.providerTime = providerTime
    self.pushService = pushService
  }

  /// Looks at everything; takes as long as the providers take to answer, at most some seconds.
  ///
  /// - Parameter progress: gets what is looked at next.
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
      findings.append(.skipped("keys", "\(configuration.keys.directory) cannot be looked into"))
    }
    if !faults.contains("descriptors") { findings += shortageFinding() }
    if !faults.contains("tls") { findings += expiryFinding() }
    if faults.contains("database") {
      findings.append(.skipped("deaths held back", "the database cannot be used"))
    } else {
      findings += await heldFindings()
      findings += await rotationFinding()
    }
    progress("the clock and the providers")
    async let clock = clockFinding(asksDatabase: !faults.contains("database"))
    async let webPush = webPushFindings(asksDatabase: !faults.contains("database"))
    async let routes = providerFindings(
      snapshot.credentials,
      unless: faults.intersection(["providers", "providers.ca_file", "storage.key"]).sorted())
    findings.append(await clock)
    findings += await routes
    findings += await webPush
    return findings
  }
}
