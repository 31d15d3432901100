import NIOCore
import Timing

/// Which request goes over which connection, and when to open or close one: the pool's decisions,
/// without I/O. Events go in as method calls, what to do comes out as ``Command``s.
///
/// - A connection takes requests once its peer's SETTINGS have come, never more than they allow at
///   a time and never more than ``Limits/streams``: beyond some 250 the cost of each grows.
/// - Another one is opened only when all are full, and none is opening or yet to prove itself
///   with a first answer: APNs allows one stream until it has seen a good token, then 1000.
/// - Places on connections, and among those who wait for one, are dealt out between owners (``FairShare``), whose turns
///   come one after the other: requests that hang leave room for those of others.
/// - One that was silent for long must answer a PING first: what a firewall has forgotten in
///   silence would swallow the request and leave us guessing whether it arrived.
struct PoolState<Request, Connection> {
  struct Limits: Sendable {
    /// Connections at a time, without those that only finish.
    var connections = 4
    /// Requests under way on one connection.
    var streams = 250
    /// Requests under way in all, those on connections that only finish included: so many may be waited for
    /// when their callers are gone.
    var underWay = 2000
    /// Requests waiting for a connection.
    var waiting = 20_000
    /// How long an answer is waited for after the caller has gone on without it.
    var answerTimeout = TimeAmount.seconds(60)
    /// Silence after which an idle connection is asked before it is used.
    var quiet = TimeAmount.seconds(60)
    /// Attempts to connect in a row after which the waiting are told.
    var attempts = 3
    /// Pauses after failed attempts.
    let backoff = Backoff(first: 0.1, longest: 2, shares: 1...1)
  }

  enum Command {
    case start(Request, Connection)
    case fail(Request, TransportFailure)
    case connect(ConnectionID, after: TimeAmount)
    case probe(Connection)
    case close(Connection)
  }

  private enum Phase {
    case connecting
    case ready
    /// Asked for a sign of life: gets nothing new until it gives one.
    case probing
    /// Finishes what it has.
    case draining
  }

  private struct Entry {
    let id: ConnectionID
    var connection: Connection?
    var phase: Phase
    var announced = 0
    var underWay = 0
    /// Of these, each owner's.
    var owners: [Owner: Int] = [:]
    /// Whether a request has been answered on it.
    var proven = false
    /// Whether it has been counted as a failed attempt.
    var hasFailed = false
    var heard = NIODeadline.uptimeNanoseconds(0)
  }

  private let limits: Limits
  private var entries: [Entry] = []
  private var waiting = Turns<Request>()
  private var lastNumber = 0
  private var failures = 0
  private var noConnectBefore = NIODeadline.uptimeNanoseconds(0)
  private(set) var isShutDown = false

  init(limits: Limits = Limits()) {
    self.limits = limits
  }

  /// Nothing open, opening or waiting.
  var isEmpty: Bool { entries.isEmpty && waiting.isEmpty }

  // MARK: Requests

  /// A request comes in. One that comes `again`, certainly not processed, goes before all others.
  mutating func add(_ request: Request, of owner: Owner = .nobody, again: Bool = false, now: NIODeadline)
    -> [Command]
  {
    guard !isShutDown else { return [.fail(request, .shuttingDown)] }
    guard
      again
        || FairShare.allows(own: waiting.count(of: owner), total: waiting.count, limit: limits.waiting)
    else { return [.fail(request, .overloaded)] }
    // Every connection so far took it only to end: enough of that.
    guard !again || failures < limits.attempts || hasLive else { return [.fail(request, .refused)] }
    if again {
      waiting.prepend(request, of: owner)
    } else {
      waiting.append(request, of: owner)
    }
    return dispatch(now: now)
  }

  /// A request on the connection is over; `answered` says whether the peer was heard.
  mutating func finished(
    on id: ConnectionID, of owner: Owner = .nobody, answered: Bool, now: NIODeadline
  ) -> [Command] {
    guard let index = index(of: id) else { return [] }
    let rest = entries[index].owners[owner, default: 0] - 1
    entries[index].owners[owner] = rest > 0 ? rest : nil
    entries[index].underWay -= 1
    if answered {
      entries[index].heard = now
      entries[index].proven = true
      failures = 0
    }
    return closeIfDrained(index) + dispatch(now: now)
  }

  /// Forgets waiting requests that nobody waits for any longer.
  mutating func removeWaiting(where isOver: (Request) -> Bool) {
    waiting.removeAll(where: isOver)
  }

  // MARK: Connections

  /// The connection is up and the peer's first SETTINGS have come; `streams` is what they allow.
  mutating func opened(_ id: ConnectionID, _ connection: Connection, streams: Int, now: NIODeadline)
    -> [Command]
  {
    guard let index = index(of: id) else { return [.close(connection)] }
    entries[index].connection = connection
    entries[index].announced = streams
    entries[index].heard = now
    guard entries[index].phase != .draining else { return closeIfDrained(index) }
    entries[index].phase = .ready
    return dispatch(now: now)
  }

  /// Later SETTINGS changed what the peer allows.
  mutating func limitChanged(_ id: ConnectionID, streams: Int, now: NIODeadline) -> [Command] {
    guard let index = index(of: id) else { return [] }
    entries[index].announced = streams
    return dispatch(now: now)
  }

  /// The connection is gone, or none came about. Its requests have been reported before.
  ///
  /// One that never answered anything counts as a failed attempt: then the next waits a little,
  /// and after some in a row the waiting are told rather than kept.
  mutating func closed(_ id: ConnectionID, _ failure: TransportFailure, now: NIODeadline) -> [Command] {
    guard let index = index(of: id) else { return [] }
    countFailure(index, now: now)
    let isUseless = !entries.remove(at: index).proven
    guard isUseless, !isShutDown, failures >= limits.attempts, !hasLive else { return dispatch(now: now) }
    return waiting.removeAll().map { .fail($0, failure) }
  }

  /// The connection is to take no more requests: GOAWAY, or it has proven useless.
  mutating func drain(_ id: ConnectionID, now: NIODeadline) -> [Command] {
    guard let index = index(of: id), entries[index].phase != .draining else { return [] }
    entries[index].phase = .draining
    countFailure(index, now: now)
    return closeIfDrained(index) + dispatch(now: now)
  }

  /// Those connections are to take no more requests that were begun before, or together with, this one: the next
  /// request goes over one that is fresh. Nil: all that there are.
  mutating func renew(through newest: ConnectionID?, now: NIODeadline) -> [Command] {
    var commands: [Command] = []
    for index in entries.indices where entries[index].phase != .draining {
      guard newest.map({ entries[index].id.number <= $0.number }) ?? true else { continue }
      entries[index].phase = .draining
      commands += closeIfDrained(index)
    }
    return commands + dispatch(now: now)
  }

  /// The connection has been asked for a sign of life.
  mutating func suspected(_ id: ConnectionID, now: NIODeadline) -> [Command] {
    guard let index = index(of: id), entries[index].phase == .ready else { return [] }
    entries[index].phase = .probing
    return dispatch(now: now)
  }

  /// The connection gave a sign of life.
  mutating func alive(_ id: ConnectionID, now: NIODeadline) -> [Command] {
    guard let index = index(of: id) else { return [] }
    entries[index].heard = now
    guard entries[index].phase == .probing else { return [] }
    entries[index].phase = .ready
    return dispatch(now: now)
  }

  /// Nothing new is taken; what waits is told so, what is under way may end.
  mutating func shutDown() -> [Command] {
    isShutDown = true
    var commands: [Command] = waiting.removeAll().map { .fail($0, .shuttingDown) }
    for index in entries.indices.reversed() {
      entries[index].phase = .draining
      commands += closeIfDrained(index)
    }
    return commands
  }

  /// Closes every connection, whatever is under way on it; one that is still opening is closed when it is open.
  mutating func closeAll() -> [Command] {
    entries.removeAll { $0.connection == nil }
    return entries.compactMap(\.connection).map { .close($0) }
  }

  // MARK: Decisions

  private mutating func dispatch(now: NIODeadline) -> [Command] {
    guard !waiting.isEmpty else { return [] }
    var commands: [Command] = []
    var total = entries.reduce(0) { $0 + $1.underWay }
    let places = places
    while !waiting.isEmpty, total < limits.underWay {
      guard let index = freest(now: now), let connection = entries[index].connection else {
        return isShutDown ? commands : commands + find(now: now)
      }
      guard
        let (request, owner) = waiting.next(where: { [entries, limits] owner in
          func allows(_ entries: [Entry], _ limit: Int) -> Bool {
            FairShare.allows(
              own: entries.reduce(0) { $0 + ($1.owners[owner] ?? 0) },
              total: entries.reduce(0) { $0 + $1.underWay }, limit: limit)
          }
          // What connections only finish takes no place on those that are used.
          return allows(entries.filter { $0.phase != .draining }, places)
            && allows(entries, limits.underWay)
        })
      else { break }
      entries[index].underWay += 1
      entries[index].owners[owner, default: 0] += 1
      total += 1
      commands.append(.start(request, connection))
    }
    return commands
  }

  /// As many requests may be under way at a time, once all connections are open.
  private var places: Int {
    let streams = entries.lazy.filter { $0.phase != .draining }.map(\.announced).max() ?? 0
    return min(limits.underWay, limits.connections * min(streams, limits.streams))
  }

  /// The ready connection with the fewest requests, if it has room and was heard of lately.
  private func freest(now: NIODeadline) -> Int? {
    var best: Int?
    for index in entries.indices where hasRoom(entries[index]) && !isQuiet(entries[index], now: now) {
      guard let other = best, entries[other].underWay <= entries[index].underWay else {
        best = index
        continue
      }
    }
    return best
  }

  /// Whether any connection takes requests, or may soon.
  private var hasLive: Bool { entries.contains { $0.phase != .draining } }

  private mutating func countFailure(_ index: Int, now: NIODeadline) {
    guard !entries[index].proven, !entries[index].hasFailed else { return }
    entries[index].hasFailed = true
    failures += 1
    noConnectBefore = now + TimeAmount(.seconds(limits.backoff.pause(after: failures)))
  }

  private func hasRoom(_ entry: Entry) -> Bool {
    entry.phase == .ready && entry.underWay < min(entry.announced, limits.streams)
  }

  private func isQuiet(_ entry: Entry, now: NIODeadline) -> Bool {
    entry.underWay == 0 && now - entry.heard > limits.quiet
  }

  /// A place for what waits: ask a quiet connection first, else open another.
  private mutating func find(now: NIODeadline) -> [Command] {
    if let index = entries.firstIndex(where: { hasRoom($0) }), let connection = entries[index].connection {
      entries[index].phase = .probing
      return [.probe(connection)]
    }
    let live = entries.filter { $0.phase != .draining }
    let isOneComing = live.contains { entry in
      switch entry.phase {
      case .connecting: true
      case .ready: !entry.proven && entry.underWay > 0
      case .probing: entry.underWay == 0
      case .draining: false
      }
    }
    guard !isOneComing, live.count < limits.connections else { return [] }
    lastNumber += 1
    let id = ConnectionID(number: lastNumber)
    entries.append(Entry(id: id, connection: nil, phase: .connecting))
    return [.connect(id, after: max(noConnectBefore - now, .zero))]
  }

  private mutating func closeIfDrained(_ index: Int) -> [Command] {
    guard entries[index].phase == .draining, entries[index].underWay == 0,
      let connection = entries[index].connection
    else { return [] }
    return [.close(connection)]
  }

  private func index(of id: ConnectionID) -> Int? {
    entries.firstIndex { $0.id == id }
  }
}
