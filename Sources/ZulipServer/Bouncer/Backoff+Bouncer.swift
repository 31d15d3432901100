internal import Timing

extension Backoff {
  /// Of what the bouncer is to be told, which goes on for a day.
  static let bouncer = Backoff(first: 2, longest: 900)
}
