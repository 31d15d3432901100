internal import Foundation
package import Settings

/// The limit on the process's open file descriptors (`ulimit -n`), and how many of them callers' connections
/// may take. Descriptors for the database, the providers and DNS lookups are reserved: a library that gets
/// none may end the whole process, as Dispatch does.
package struct DescriptorLimit: Sendable, Hashable, CustomStringConvertible {
  package let descriptors: Int

  package init(_ descriptors: Int) {
    self.descriptors = descriptors
  }

  /// With fewer descriptors there is no room for callers, and the service does not start.
  static let minimum = 192

  /// With fewer descriptors a busy service refuses connections.
  static let recommended = 1024

  /// No service of this kind needs more, and some libraries iterate over all possible descriptors.
  private static let maximum = 65_536

  /// The default for `http.max_connections`, because each connection costs memory.
  private static let standardConnections = 4096

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

  /// The most connections that callers can have with this limit.
  package var possibleConnections: Int { descriptors - max(128, descriptors / 4) }

  /// How many connections callers may have.
  ///
  /// - Parameter wanted: the value of `http.max_connections`; nil if it is not set.
  package func connections(_ wanted: Int?) -> Int {
    min(wanted ?? Self.standardConnections, possibleConnections)
  }

  /// Describes why the limit is too low for `wanted` connections; nil if it is high enough.
  package func shortage(_ wanted: Int?) -> String? {
    if let wanted, wanted > possibleConnections {
      return """
        http.max_connections: only \(possibleConnections) of \(wanted) are possible with \(self) descriptors \
        (ulimit -n)
        """
    }
    guard descriptors < Self.recommended else { return nil }
    return "only \(self) descriptors (ulimit -n), which are \(max(0, connections(wanted))) connections"
  }

  /// The lowest limit that allows this many connections and a busy service.
  package static func needed(for connections: Int?) -> Int {
    // Where this is more than the recommended limit, a quarter of it is more than the 128 that are reserved.
    max(recommended, (4 * (connections ?? 0) + 2) / 3)
  }

  /// The most connections to push services, which strangers choose. They get half of the descriptors that
  /// callers do not get; the other half is left for the database, Apple and Google.
  package var pushServiceConnections: Int { min(1000, max(128, descriptors / 4) / 2) }

  /// The most event loops to run: each takes three descriptors.
  package var eventLoops: Int { max(2, descriptors / 64) }

  package var description: String { "\(descriptors)" }

  /// Throws if the limit leaves no room for callers.
  package func check() throws(Fault) {
    guard descriptors < Self.minimum else { return }
    throw Fault(
      "only \(self) descriptors are allowed (ulimit -n), and \(Self.minimum) are needed",
      advice: Self.advice(nil))
  }

  /// Says how to raise the limit for `wanted` connections.
  package static func advice(_ wanted: Int?) -> String {
    "allow \(needed(for: wanted)): ulimit -n, or LimitNOFILE= where systemd starts the service"
  }
}
