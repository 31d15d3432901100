import Providers
import Registrations
import Synchronization

/// How many entries the outbox has, and how many more it may take. Counted once, then kept along.
final class OutboxDepth: Sendable {
  /// Where an entry counts.
  struct Share: Hashable {
    let queue: OutboxQueue
    let kind: RegistrationReference.Kind

    var route: Route { queue.route }
    /// A push service, which a stranger has named: it has less room than APNs and FCM, and takes none from them.
    var isOfHost: Bool { route.provider == .webPush }
  }

  private struct RouteShare: Hashable {
    let route: Route
    let kind: RegistrationReference.Kind
  }

  /// What a limit for all routes is for.
  private struct Group: Hashable {
    let kind: RegistrationReference.Kind
    let isOfHosts: Bool
  }

  private struct Counts {
    private(set) var shares: [Share: Int] = [:]
    private var routes: [RouteShare: Int] = [:]
    private var groups: [Group: Int] = [:]
    private var owners: [Group: [Owner: Int]] = [:]
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
      let group = Group(kind: share.kind, isOfHosts: share.isOfHost)
      Self.change(&routes, RouteShare(route: share.route, kind: share.kind), by: after - before)
      Self.change(&groups, group, by: after - before)
      Self.change(&owners[group, default: [:]], share.queue.owner, by: after - before)
      total += after - before
    }

    private static func change<Key>(_ counts: inout [Key: Int], _ key: Key, by change: Int) {
      let count = counts[key, default: 0] + change
      counts[key] = count == 0 ? nil : count
    }

    func count(of route: Route, _ kind: RegistrationReference.Kind) -> Int {
      routes[RouteShare(route: route, kind: kind)] ?? 0
    }

    /// Whether there is room for one more, for this owner.
    func fits(_ share: Share, _ limits: Outbox.Limits) -> Bool {
      let isOfHost = share.isOfHost
      let group = Group(kind: share.kind, isOfHosts: isOfHost)
      return FairShare.allows(
        own: shares[share] ?? 0, total: count(of: share.route, share.kind),
        limit: isOfHost ? limits.perHost : limits.perRoute)
        && FairShare.allows(
          own: owners[group]?[share.queue.owner] ?? 0, total: groups[group] ?? 0,
          limit: isOfHost ? limits.perKindOfHosts : limits.perKind)
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
      RegistrationReference.Kind.allCases.reduce(0) { $0 + counts.count(of: route, $1) }
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

  /// Makes room for what is to be inserted: for all of it, but for what is over the share of a push service or of an
  /// address that registers with the push proxy. The failure of a host that a stranger has named is no reason to refuse
  /// what goes elsewhere, nor what others have waiting one to refuse the rest of a request.
  ///
  /// - Returns: for each, whether it has room.
  func reserve(_ shares: [Share]) throws(Outbox.Full) -> [Bool] {
    let granted = counts.withLock { counts -> [Bool]? in
      var granted: [Bool] = []
      for share in shares {
        let fits = counts.fits(share, limits)
        guard fits || share.isOfHost || share.kind == .nextcloud else {
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
