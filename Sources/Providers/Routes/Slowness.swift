import NIOCore

/// Whether a route answers too late for those who wait: then they are better off not waiting.
///
/// A provider that hangs would cost each request its whole deadline. So after some who waited in vain, one after
/// the other, nobody does any more, until an answer comes sooner than they would have given up, or all have come.
/// What need not wait, from the outbox, goes all the while, and shows when that is.
struct Slowness: Sendable {
  /// How many in a row have to wait in vain, each begun after the one before had given up: whatever is sent
  /// together suffers together, and counts once.
  static let threshold = 3
  /// Who gave up sooner than this says nothing about the route.
  static let fairChance = TimeAmount.seconds(1)

  private var strikes = 0
  private var lastStrike = NIODeadline.uptimeNanoseconds(0)
  /// The shortest time that was too short.
  private var tooShort = TimeAmount.nanoseconds(.max)

  /// Whether waiting is in vain.
  var isSlow: Bool { strikes >= Self.threshold }

  /// Somebody waited from `start` until now and got no answer.
  mutating func waitedInVain(from start: NIODeadline, now: NIODeadline) {
    guard now - start >= Self.fairChance else { return }
    tooShort = min(tooShort, now - start)
    guard strikes == 0 || start >= lastStrike else { return }
    strikes += 1
    lastStrike = now
  }

  /// The provider answered after so long.
  mutating func answered(after time: TimeAmount) {
    if time < tooShort { self = Slowness() }
  }
}
