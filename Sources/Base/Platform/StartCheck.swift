package import Basics
package import Foundation
import HTTPClient

/// A condition for the start of the service. `serve` stops at the first that fails; `doctor` makes all
/// checks, and so reports everything that `serve` would refuse, in the same words.
package struct StartCheck: Sendable {
  /// The check's name, for `doctor`.
  package let name: String
  private let check: @Sendable () async throws -> Finding

  /// - Parameter check: makes the check called `name`, and changes nothing. It throws a ``Fault`` that prevents the
  ///   start, and returns as a finding what does not.
  package init(_ name: String, _ check: @escaping @Sendable (_ name: String) async throws -> Finding) {
    self.name = name
    self.check = { try await check(name) }
  }

  /// Makes the check for `serve`; throws if it fails.
  package func pass() async throws(Fault) -> Finding {
    do { return try await check() } catch { throw Fault(error) }
  }

  /// Makes the check for `doctor`; a failure becomes a finding.
  package func finding() async -> Finding {
    do { return try await check() } catch { return .bad(name, Fault(error)) }
  }
}

extension StartCheck {
  /// Checks a PEM file with trust roots; no check if the setting names none.
  package static func file(
    _ key: String, _ path: String?, now: @escaping @Sendable () -> Date
  ) -> [StartCheck] {
    guard let path else { return [] }
    return [
      StartCheck(key) { key in
        let certificates = try PEMFile(path, key: key).certificates()
        let expired = certificates.count { $0.life.end <= now() }
        guard expired > 0 else {
          return .good(key, "\(path) has \(Phrase.count(certificates.count, "certificate"))")
        }
        return .warning(
          key,
          """
          \(expired) of \(Phrase.count(certificates.count, "certificate")) in \(path) \(expired == 1 ? "has" : "have") \
          expired: a host whose certificate needs it is not connected to
          """,
          advice: "put the present one there, then restart the service")
      }
    ]
  }
}
