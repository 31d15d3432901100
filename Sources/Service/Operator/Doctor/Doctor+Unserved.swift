import Basics
import Delivery
import Foundation
import Platform
import Providers
import Registrations
import SQL
import Sealing

extension Doctor {
  /// How many apps and projects are listed.
  private static let mostUnserved = 10

  /// Compares the apps and projects of living registrations with the credentials. Those of chat servers are faults; at
  /// the push proxy anybody may register.
  func unservedFindings(_ credentials: Credentials) async -> [Finding] {
    guard let database = await database() else { return [] }
    let key = try? KeyFolder.existingStorageKey(in: configuration.keys.directory)
    let targets = RegistrationTargets(database: database)
    let found: [Finding]
    do {
      var unserved = try await targets.counts().filter { !credentials.serves($0, in: $0.environment) }.map {
        count in
        Self.finding(
          Phrase.count(count.count, "device"),
          .init(
            target: .init(
              count.provider, count.target, isUntrusted: count.isUntrusted,
              environment: credentials.serves(count, in: nil) ? count.environment : nil),
            alike: credentials.alike(count)))
      }
      if let key, !credentials.hasDefaultProject {
        for isUntrusted in [false, true] {
          let (count, isCut) = try await targets.ofDefaultProject(isUntrusted: isUntrusted, key)
          guard count > 0 else { continue }
          unserved.append(
            Self.finding(
              "\(isCut ? "at least " : "")\(Phrase.count(count, "device"))",
              .init(target: .init(.fcm, "", isUntrusted: isUntrusted))))
        }
      }
      found = unserved
    } catch {
      return [.skipped("apps", "the registrations could not be read")]
    }
    guard !found.isEmpty else {
      return [.good("apps", "a credential serves each app that devices are registered for")]
    }
    // Names of apps come from outside, so there may be any number.
    let faults = found.filter { !$0.isGood }.prefix(Self.mostUnserved)
    let shown = faults + found.filter(\.isGood).prefix(Self.mostUnserved)
    guard found.count > shown.count else { return Array(shown) }
    return shown + [
      .warning(
        "apps", "no credential serves \(found.count - shown.count) more apps either",
        advice: "correct those above first")
    ]
  }

  private static func finding(_ devices: String, _ report: UnservedReport) -> Finding {
    let detail = "\(devices) of \(report.target.name): \(report.target.lack)"
    let name = report.target.provider.rawValue
    return report.isFault
      ? .bad(name, detail, advice: report.advice) : .warning(name, detail, advice: report.advice)
  }
}

extension Credentials {
  /// - Parameter environment: of APNs; nil for either.
  fileprivate func serves(
    _ count: RegistrationTargets.Count, in environment: APNsCredential.Environment?
  ) -> Bool {
    self[count.provider].contains { $0.serves(count.target, isPushKit: count.isPushKit, in: environment) }
  }

  /// A topic or project that differs only by upper and lower case.
  fileprivate func alike(_ count: RegistrationTargets.Count) -> String? {
    self[count.provider].flatMap(\.targets).first {
      $0 != count.target && $0.lowercased() == count.target.lowercased()
    }
  }
}
