package import NIOCore
import TestSupport

extension NIODeadline {
  /// ``longestWait`` from now.
  package static var longest: NIODeadline { .seconds(longestWait / .seconds(1)) }

  /// Seconds from now.
  package static func seconds(_ seconds: Double) -> NIODeadline {
    .now() + .nanoseconds(Int64(seconds * 1e9))
  }
}
