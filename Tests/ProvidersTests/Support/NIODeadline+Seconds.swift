import NIOCore

extension NIODeadline {
  /// Seconds from now.
  static func seconds(_ seconds: Double) -> NIODeadline { .now() + .nanoseconds(Int64(seconds * 1e9)) }
}
