import Registrations
import Synchronization

/// How many entries the outbox has, and how many more it may take. Counted once, then kept along.
final class OutboxDepth: Sendable {
  /// Where an entry counts.
  struct Share: Hashable {
    /// A row of `outbox_routes`.
    let route: Int64
    let kind: RegistrationReference.Kind
  }

  private struct Counts {
    var shares: [Share: Int] = [:]
    /// Reserved by insertions under way.
    var arriving: [Share: Int] = [:]
    /// What a count that is under way may have missed. One too many is put right by the next count; one
    /// too few would leave an entry waiting for it.
    var sinceCount: [Share: Int] = [:]

    /// Whether so much is allowed.
    func fits(_ limits: Outbox.Limits) -> Bool {
      var kinds: [RegistrationReference.Kind: Int] = [:]
      for (share, count) in shares { kinds[share.kind, default: 0] += count }
      return shares.values.allSatisfy { $0 <= limits.perRoute }
        && kinds.values.allSatisfy { $0 <= limits.perKind }
    }
  }

  private let limits: Outbox.Limits
  private let counts = Mutex(Counts())

  init(limits: Outbox.Limits) { self.limits = limits }

  var total: Int { counts.withLock { $0.shares.values.reduce(0, +) } }

  /// The rows of `outbox_routes` that have entries.
  var routes: Set<Int64> { counts.withLock { Set($0.shares.filter { $0.value > 0 }.keys.map(\.route)) } }

  /// How many entries a row of `outbox_routes` has.
  func count(ofRoute id: Int64) -> Int {
    counts.withLock { counts in
      counts.shares.reduce(0) { $0 + ($1.key.route == id ? $1.value : 0) }
    }
  }

  /// Before the entries are counted.
  func beginCount() { counts.withLock { $0.sinceCount = $0.arriving } }

  /// After the entries were counted.
  func endCount(_ counted: [Share: Int]) {
    counts.withLock { $0.shares = counted.merging($0.sinceCount, uniquingKeysWith: +) }
  }

  /// Makes room for what is to be inserted.
  func reserve(_ shares: [Share]) throws(Outbox.Full) {
    let fits = counts.withLock { counts in
      var then = counts
      for share in shares {
        then.shares[share, default: 0] += 1
        then.arriving[share, default: 0] += 1
        then.sinceCount[share, default: 0] += 1
      }
      guard then.fits(limits) else { return false }
      counts = then
      return true
    }
    if !fits { throw Outbox.Full() }
  }

  /// What was to be inserted is there, or not.
  func arrived(_ shares: [Share]) {
    counts.withLock { counts in
      for share in shares { counts.arriving[share, default: 0] -= 1 }
    }
  }

  /// These are gone, or did not come.
  func release(_ shares: some Sequence<Share>) {
    counts.withLock { counts in
      for share in shares { counts.shares[share] = max(0, counts.shares[share, default: 0] - 1) }
    }
  }
}
