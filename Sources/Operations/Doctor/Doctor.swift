package import Foundation
internal import Logging
internal import Providers

/// Looks at everything that the service depends on, changes nothing, and says for each fault what to do.
package struct Doctor: Sendable {
  let configuration: Configuration
  let now: @Sendable () -> Date
  let descriptors: DescriptorLimit
  let providerTime: @Sendable () async -> Date?

  /// A doctor for the service with this configuration.
  ///
  /// - Parameters:
  ///   - descriptors: this process's limit, which is the service's where both are started alike.
  ///   - providerTime: asks FCM for the time; nil if it does not tell.
  package init(
    _ configuration: Configuration, now: @escaping @Sendable () -> Date = { Date() },
    descriptors: DescriptorLimit = .raised(),
    providerTime: @escaping @Sendable () async -> Date?
  ) {
    self.configuration = configuration
    self.now = now
    self.descriptors = descriptors
    self.providerTime = providerTime
  }

  /// What there is to say when the configuration itself cannot be read.
  package static func finding(_ error: ConfigurationError) -> Finding {
    .bad(
      "configuration", "\(error)", advice: "mend that key; push-bouncer init writes a file with all of them")
  }

  /// Looks at everything; takes as long as the providers take to answer, at most some seconds.
  package func examine() async -> [Finding] {
    let folder = KeyFolder(
      directory: configuration.keys.directory, defaultProject: configuration.fcm.defaultProject,
      logger: Logger(label: "doctor") { _ in SwiftLogNoOpLogHandler() })
    let snapshot = folder.load()
    async let clock = clockFinding()
    async let routes = providerFindings(snapshot.credentials)
    var findings = [Finding.good("configuration", "can be read")]
    findings += keyFindings(snapshot)
    findings.append(permissionFinding())
    findings += strengthFindings()
    findings.append(descriptorFinding())
    findings.append(await databaseFinding())
    findings += await heldFindings()
    if let tls = configuration.http.tls { findings.append(tlsFinding(tls)) }
    findings.append(await clock)
    findings += await routes
    return findings
  }
}

/// One thing that `doctor` has looked at.
package struct Finding: Sendable, Hashable {
  /// What was looked at: `database`, `apns:production`.
  package let check: String
  /// Whether it is as it should be.
  package let isGood: Bool
  /// What was found; never a secret.
  package let detail: String
  /// What to do about it; nil if nothing.
  package let advice: String?

  /// All is well.
  static func good(_ check: String, _ detail: String) -> Finding {
    Finding(check: check, isGood: true, detail: detail, advice: nil)
  }

  /// Something is not.
  static func bad(_ check: String, _ detail: String, advice: String) -> Finding {
    Finding(check: check, isGood: false, detail: detail, advice: advice)
  }
}
