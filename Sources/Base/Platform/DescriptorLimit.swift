package import Basics
import Foundation

/// The limit on the process's open file descriptors (`ulimit -n`), and how many of them callers' connections
/// may take. Descriptors for the database, the providers and DNS lookups are reserved: a library that gets
/// none may end the whole process, as Dispatch does.
package struct DescriptorLimit: Sendable, Hashable, CustomStringConvertible {
  package let descriptors: Int

  package init(_ descriptors: Int) {
    self.descriptors = descriptors
  }

  /// The smallest limit that leaves room for callers; with a lower one the service does not start.
  static let minimum = 192

  /// The highest limit that is asked for: more is not needed, and some libraries iterate over all possible descriptors.
  private static let maximum = 65_536

  /// The process's limit, raised as far as the process may raise it.
  package static func raised() -> DescriptorLimit {
    var limit = rlimit()
    guard getrlimit(kind, &limit) == 0 else { return DescriptorLimit(minimum) }
    let wanted = min(limit.rlim_max, rlim_t(maximum))
    if limit.rlim_cur < wanted {
      var raised = rlimit(rlim_cur: wanted, rlim_max: limit.rlim_max)
      if setrlimit(kind, &raised) == 0 { limit = raised }
    }
    return DescriptorLimit(Int(clamping: limit.rlim_cur))
  }

  private static let kind = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)

  /// How many connections callers may have.
  ///
  /// - Parameter wanted: the value of `http.max_connections`.
  package func connections(_ wanted: Int) -> Int { min(wanted, descriptors - max(128, descriptors / 4)) }

  /// A sentence saying that the limit is too low for `wanted` connections; nil if it is high enough.
  package func shortage(_ wanted: Int) -> String? {
    let possible = connections(wanted)
    guard possible < wanted else { return nil }
    return
      "only \(possible) connections of http.max_connections (\(wanted)) are possible with \(self) descriptors (ulimit -n)"
  }

  /// The maximum number of connections to push services, which untrusted devices choose. They get half of the descriptors
  /// that callers do not get; the other half is left for the database, Apple and Google.
  package var pushServiceConnections: Int { min(1000, max(128, descriptors / 4) / 2) }

  package var description: String { "\(descriptors)" }

  /// Throws if the limit leaves no room for callers.
  package func check() throws(Fault) {
    guard descriptors < Self.minimum else { return }
    throw Fault(
      "only \(self) descriptors are allowed (ulimit -n), and \(Self.minimum) are needed",
      advice: Self.advice)
  }

  package static let advice = "allow more: ulimit -n, or LimitNOFILE=65536 where systemd starts the service"
}
