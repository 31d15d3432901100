/// Decides when a person is told of the database: once when it goes away, once when it is back. A moment of either is
/// nothing to tell: each has to be seen twice.
struct DatabaseReporter {
  enum Event: Hashable {
    case began(DatabaseCheck.Failure)
    /// It was away for so long.
    case recovered(after: Duration)
  }

  private var failingSince: ContinuousClock.Instant?
  private var wellSince: ContinuousClock.Instant?
  private var isTold = false

  /// Whether it is away, or may be.
  var isFailing: Bool { failingSince != nil }

  /// Takes a look at what is wrong with it; nil: nothing.
  mutating func look(at failure: DatabaseCheck.Failure?, now: ContinuousClock.Instant) -> Event? {
    if let failure {
      wellSince = nil
      guard failingSince != nil else {
        failingSince = now
        return nil
      }
      guard !isTold else { return nil }
      isTold = true
      return .began(failure)
    }
    guard let since = failingSince, isTold else {
      failingSince = nil
      return nil
    }
    guard let wellSince else {
      wellSince = now
      return nil
    }
    self = Self()
    return .recovered(after: wellSince - since)
  }
}
