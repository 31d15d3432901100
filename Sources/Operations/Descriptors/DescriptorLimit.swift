internal import Foundation

/// How many files and connections the process may have open at a time (`ulimit -n`), and how many of them may be
/// callers' connections: the database, the providers and lookups must never find none left. A library that
/// finds none may end the whole process, as Dispatch does.
package struct DescriptorLimit: Sendable, Hashable, CustomStringConvertible {
  package let descriptors: Int

  package init(_ descriptors: Int) {
    self.descriptors = descriptors
  }

  /// Below this there is no room for callers.
  static let minimum = 192

  /// Below this a busy service turns callers away.
  static let recommended = 1024

  /// More than any service of this kind needs, and than some libraries can look through quickly.
  private static let maximum = 65_536

  /// Each connection costs memory: for more of them at a time the operator sets `http.max_connections`.
  private static let standardConnections = 4096

  /// The process's own, raised as far as it may raise it itself.
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

  /// As many connections as callers may have at most.
  package var possibleConnections: Int { descriptors - max(128, descriptors / 4) }

  /// As many connections as callers may have.
  ///
  /// - Parameter wanted: as many as the operator wants them to have, if he has said so.
  package func connections(_ wanted: Int?) -> Int {
    min(wanted ?? Self.standardConnections, possibleConnections)
  }

  /// What is wrong with the limit for as many connections; nil if nothing is.
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

  /// The least limit that leaves room for as many connections, and for a busy service.
  package static func needed(for connections: Int?) -> Int {
    let wanted = connections ?? 0
    return max(recommended, wanted + 128, (4 * wanted + 2) / 3)
  }

  /// Connections to push services of Web Push that there may be, which strangers name: they must leave the other half of
  /// what callers do not get to the database and to Apple and Google.
  package var pushServiceConnections: Int { min(1000, max(128, descriptors / 4) / 2) }

  /// Event loops that may run: each has three descriptors.
  package var eventLoops: Int { max(2, descriptors / 64) }

  package var description: String { "\(descriptors)" }

  /// Refuses to start where nobody could call.
  package func check() throws(Fault) {
    guard descriptors < Self.minimum else { return }
    throw Fault(
      "only \(self) descriptors are allowed (ulimit -n), and \(Self.minimum) are needed",
      advice: Self.advice(nil))
  }

  /// What to do where there are too few for as many connections.
  static func advice(_ wanted: Int?) -> String {
    "allow \(needed(for: wanted)): ulimit -n, or LimitNOFILE= where systemd starts the service"
  }
}
