import Providers
import Registrations
import Synchronization

/// How many entries the outbox has, and how many more it may take. Counted once, then kept along.
final class OutboxDepth: Sendable {
  /// Where an entry counts.
  struct Share: Hashable {
    let route: Route
    let kind: RegistrationReference.Kind

    /// A push service, which a stranger has named: it has less room than APNs and FCM, and takes none from them.
    var isOfHost: Bool { route.provider == .webPush }
  }

  /// What a limit for all routes is for.
  private struct Group: Hashable {
    let kind: RegistrationReference.Kind
    let isOfHosts: Bool
  }

  private struct Counts {
    private(set) var shares: [Share: Int] = [:]
    private var groups: [Group: Int] = [:]
    private(set) var total = 0
    /// Reserved by insertions under way.
    var arriving: [Share: Int] = [:]
    /// What a count that is under way may have missed. One too many is put right by the next count; one
    /// too few would leave an entry waiting for it.
    var sinceCount: [Share: Int] = [:]

    init(_ shares: [Share: Int] = [:]) {
      for (share, count) in shares { add(count, to: share) }
    }

    mutating func add(_ count: Int, to share: Share) {
      let before = shares[share, default: 0]
      let after = max(0, before + count)
      shares[share] = after == 0 ? nil : after
      groups[Group(kind: share.kind, isOfHosts: share.isOfHost), default: 0] += after - before
      total += after - before
    }

    /// Whether there is room for one more.
    func fits(_ share: Share, _ limits: Outbox.Limits) -> Bool {
      let isOfHost = share.isOfHost
      return shares[share, default: 0] < (isOfHost ? limits.perHost : limits.perRoute)
        && groups[Group(kind: share.kind, isOfHosts: isOfHost), default: 0]
          < (isOfHost ? limits.perKindOfHosts : limits.perKind)
    }
  }

  private let limits: Outbox.Limits
  private let counts = Mutex(Counts())

  init(limits: Outbox.Limits) { self.limits = limits }

  var total: Int { counts.withLock { $0.total } }

  /// The routes that have entries.
  var routes: Set<Route> { counts.withLock { Set($0.shares.keys.map(\.route)) } }

  /// How many entries each route of a provider has, where it has any.
  func counts(of provider: Route.Provider) -> [Route: Int] {
    counts.withLock { counts in
      counts.shares.reduce(into: [:]) { sums, share in
        let route = share.key.route
        if route.provider == provider, share.value > 0 { sums[route, default: 0] += share.value }
      }
    }
  }

  /// How many entries a route has.
  func count(of route: Route) -> Int {
    counts.withLock { counts in
      RegistrationReference.Kind.allCases.reduce(0) {
        $0 + counts.shares[Share(route: route, kind: $1), default: 0]
      }
    }
  }

  /// How many entries the routes of a credential have.
  func count(of provider: Route.Provider, credential: String) -> Int {
    counts.withLock { counts in
      counts.shares.reduce(0) { sum, share in
        let route = share.key.route
        return route.provider == provider && route.credential == credential ? sum + share.value : sum
      }
    }
  }

  /// Before the entries are counted.
  func beginCount() { counts.withLock { $0.sinceCount = $0.arriving } }

  /// After the entries were counted.
  func endCount(_ counted: [Share: Int]) {
    counts.withLock { counts in
      var next = Counts(counted.merging(counts.sinceCount, uniquingKeysWith: +))
      (next.arriving, next.sinceCount) = (counts.arriving, counts.sinceCount)
      counts = next
    }
  }

  /// Makes room for what is to be inserted: for all of it, but for what is over the share of a push service. The failure
  /// of a host that a stranger has named is no reason to refuse what goes elsewhere.
  ///
  /// - Returns: for each, whether it has room.
  func reserve(_ shares: [Share]) throws(Outbox.Full) -> [Bool] {
    let granted = counts.withLock { counts -> [Bool]? in
      var granted: [Bool] = []
      for share in shares {
        let fits = counts.fits(share, limits)
        guard fits || share.isOfHost else {
          for (share, isGranted) in zip(shares, granted) where isGranted { counts.add(-1, to: share) }
          return nil
        }
        if fits { counts.add(1, to: share) }
        granted.append(fits)
      }
      for (share, isGranted) in zip(shares, granted) where isGranted {
        counts.arriving[share, default: 0] += 1
        counts.sinceCount[share, default: 0] += 1
      }
      return granted
    }
    guard let granted else { throw Outbox.Full() }
    return granted
  }

  /// What was to be inserted is there, or not.
  func arrived(_ shares: [Share]) {
    counts.withLock { counts in
      for share in shares {
        let rest = counts.arriving[share, default: 0] - 1
        counts.arriving[share] = rest > 0 ? rest : nil
      }
    }
  }

  /// These are gone, or did not come.
  func release(_ shares: some Sequence<Share>) {
    counts.withLock { counts in
      for share in shares { counts.add(-1, to: share) }
    }
  }
}
