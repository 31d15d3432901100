internal import Foundation
internal import Providers

/// Something that has to be in order before the service starts. `serve` stops at the first that is not; `doctor` looks
/// at all of them, and so finds whatever `serve` would refuse, in the same words.
package struct StartCheck: Sendable {
  /// Thrown by a look that is not possible now.
  package struct Skipped: Error {
    let reason: String

    package init(_ reason: String) { self.reason = reason }
  }

  /// Thrown by a look that has found something to be told that keeps nobody from starting.
  package struct Warning: Error {
    let detail: String
    let advice: String

    package init(_ detail: String, advice: String) { (self.detail, self.advice) = (detail, advice) }
  }

  /// What is looked at, for `doctor`.
  package let name: String
  private let look: @Sendable () async throws -> String

  /// - Parameter look: says what it has found, or throws a ``Fault``, ``Warning`` or ``Skipped``. It changes nothing.
  package init(_ name: String, _ look: @escaping @Sendable () async throws -> String) {
    self.name = name
    self.look = look
  }

  /// For `serve`.
  package func pass() async throws(Fault) {
    do {
      _ = try await look()
    } catch is Skipped {
    } catch is Warning {
    } catch {
      throw Fault(error)
    }
  }

  /// For `doctor`.
  func finding() async -> Finding {
    do {
      return .good(name, try await look())
    } catch let skipped as Skipped {
      return .skipped(name, skipped.reason)
    } catch let warning as Warning {
      return .warning(name, warning.detail, advice: warning.advice)
    } catch {
      return .bad(name, Fault(error))
    }
  }
}

extension StartCheck {
  /// What can be looked at without the parts that serve.
  package static func basics(_ configuration: Configuration, descriptors: DescriptorLimit) -> [StartCheck] {
    let checks: [StartCheck?] =
      [
        StartCheck("descriptors") {
          try descriptors.check()
          let wanted = configuration.http.maxConnections
          return "\(descriptors) descriptors: room for \(descriptors.connections(wanted)) connections"
        },
        StartCheck("tls") {
          guard let tls = configuration.http.tls else {
            throw Skipped("http.tls.certificate_file is not set: TLS is up to a proxy")
          }
          _ = try tls.serverContext()
          return "the certificate ends on \(try tls.end().formatted(.iso8601.year().month().day()))"
        },
        file("providers.ca_file", configuration.providers.caFile),
        file("bouncer.verify_ca_file", configuration.bouncer.verifyCAFile),
        StartCheck("providers") {
          let providers = try PushProviders(configuration: .init(configuration))
          await providers.shutdown(within: .zero)
          return "their settings can be used"
        },
        StartCheck("storage.key") { try storageKey(configuration) },
        StartCheck("database") { try await database(configuration) },
      ]
    return strength(configuration) + checks.compactMap(\.self)
  }

  private static func strength(_ configuration: Configuration) -> [StartCheck] {
    let weaknesses = configuration.weaknesses
    guard !weaknesses.isEmpty else {
      return [StartCheck("strength") { "no token is weak, and none is missing" }]
    }
    return weaknesses.map { weakness in
      StartCheck("strength") { throw Fault(key: weakness.key, weakness.problem, advice: weakness.advice) }
    }
  }

  /// One of PEM with trust roots, where a setting names one.
  package static func file(_ key: String, _ path: String?) -> StartCheck? {
    path.map { path in
      StartCheck(key) {
        let count = try PEMFile(path, key: key).certificates().count
        return "\(path) has \(count) certificate\(count == 1 ? "" : "s")"
      }
    }
  }

  private static func storageKey(_ configuration: Configuration) throws -> String {
    let directory = configuration.keys.directory
    if try KeyFolder.existingStorageKey(in: directory) != nil {
      return "\(directory)/storage.key can be read"
    }
    if let obstacle = FileObstacle.filling(directory) {
      throw Fault(
        key: "keys.directory", "names \(directory), which \(obstacle.problem)", advice: obstacle.advice)
    }
    return "\(directory)/storage.key is not there yet; serve makes it"
  }
}
