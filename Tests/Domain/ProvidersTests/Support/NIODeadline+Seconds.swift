import NIOCore
import TestSupport

extension NIODeadline {
  /// ``longestWait`` from now.
  static var longest: NIODeadline { .seconds(longestWait / .seconds(1)) }

  /// Seconds from now.
  static func seconds(_ seconds: Double) -> NIODeadline { .now() + .nanoseconds(Int64(seconds * 1e9)) }
}
