import Basics
import NIOCore

/// Decides which request goes over which connection, and when to open or close one, without I/O. Events are
/// method calls, and the pool carries out the ``Command``s that they return.
///
/// - A connection takes requests once its peer's SETTINGS have come, at most as many as they allow and at
///   most ``Limits/streams``: with more than about 250 each request costs more.
/// - Another connection is opened only when all are full, and none is opening or still without a first
///   answer: APNs allows one stream until it has seen a good token, then 1000.
/// - Streams and places in the queue are shared between owners (``FairShare``), who take turns: one owner's
///   hanging requests leave room for others.
/// - A connection that was idle for long must answer a PING first: if a firewall has dropped it silently, it
///   would be unknown whether a request arrived.
package struct PoolState<Request, Connection> {
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
    /// A PING is unanswered: takes no new request until it is answered.
    case probing
    /// Takes no new request, and finishes those under way.
    case draining
  }

  private struct Entry {
    let id: ConnectionID
    var connection: Connection?
    var phase: Phase
    var announced = 0
    var underWay = 0
    /// Requests under way by owner.
    var owners: [Owner: Int] = [:]
    /// Whether a request has been answered on it.
    var proven = false
    /// Whether it has been counted as a failed attempt.
    var hasFailed = false
    /// When the peer was last known to be there.
    var lastReceived = NIODeadline.uptimeNanoseconds(0)
  }

  private let limits: Limits
  private var entries: [Entry] = []
  private var waiting = Turns<Owner, Request>()
  /// What owners have of the requests under way.
  private var underWay: SharedBudget<Owner>
  /// The same without draining connections, which use up no places of others.
  private var live = SharedBudget<Owner>(0)
  private var lastNumber = 0
  private var failures = 0
  private var noConnectBefore = NIODeadline.uptimeNanoseconds(0)
  private(set) var isShutDown = false

  init(limits: Limits = Limits()) {
    self.limits = limits
    underWay = SharedBudget(limits.underWay)
  }

  /// Whether a connection is open that takes requests.
  var isConnected: Bool { entries.contains { $0.connection != nil && $0.phase != .draining } }

  /// Whether no connection exists and no request waits.
  var isEmpty: Bool { entries.isEmpty && waiting.isEmpty }

  // MARK: Requests

  /// Adds a request. A request that comes `again`, because it was certainly not processed, goes before all
  /// others.
  mutating func add(_ request: Request, of owner: Owner = .nobody, again: Bool = false, now: NIODeadline)
    -> [Command]
  {
    guard !isShutDown else { return [.fail(request, .shuttingDown)] }
    guard
      again
        || FairShare.allows(own: waiting.count(of: owner), total: waiting.count, limit: limits.waiting)
    else { return [.fail(request, .overloaded)] }
    // Every connection so far was closed before it took the request.
    guard !again || failures < limits.attempts || hasLive else { return [.fail(request, .refused)] }
    // Usually no other waits, and there is room.
    live.limit = places
    if waiting.isEmpty, live.refusal(to: owner) == nil, underWay.refusal(to: owner) == nil,
      let freest = freest(now: now)
    {
      return [start(request, of: owner, on: freest)]
    }
    if again {
      waiting.prepend(request, of: owner)
    } else {
      waiting.append(request, of: owner)
    }
    return dispatch(now: now)
  }

  /// A request on the connection has ended; `answered` says whether the peer answered it.
  mutating func finished(
    on id: ConnectionID, of owner: Owner = .nobody, answered: Bool, now: NIODeadline
  ) -> [Command] {
    guard let index = index(of: id) else { return [] }
    count(-1, of: owner, on: index)
    if answered {
      entries[index].lastReceived = now
      entries[index].proven = true
      failures = 0
    }
    return closeIfDrained(index) + dispatch(now: now)
  }

  /// Removes waiting requests whose caller is gone.
  mutating func removeWaiting(where isOver: (Request) -> Bool) {
    waiting.removeAll(where: isOver)
  }

  // MARK: Connections

  /// The connection is open, and the peer's first SETTINGS allow `streams` streams.
  mutating func opened(_ id: ConnectionID, _ connection: Connection, streams: Int, now: NIODeadline)
    -> [Command]
  {
    guard let index = index(of: id) else { return [.close(connection)] }
    entries[index].connection = connection
    entries[index].announced = streams
    entries[index].lastReceived = now
    guard entries[index].phase != .draining else { return closeIfDrained(index) }
    entries[index].phase = .ready
    return dispatch(now: now)
  }

  /// Later SETTINGS changed the number of streams that the peer allows.
  mutating func limitChanged(_ id: ConnectionID, streams: Int, now: NIODeadline) -> [Command] {
    guard let index = index(of: id) else { return [] }
    entries[index].announced = streams
    return dispatch(now: now)
  }

  /// The connection was closed, or could not be opened. The results of its requests have been reported
  /// before.
  ///
  /// A connection that never answered a request counts as a failed attempt: the next one is opened after a
  /// pause, and after several in a row the waiting requests fail.
  mutating func closed(_ id: ConnectionID, _ failure: TransportFailure, now: NIODeadline) -> [Command] {
    guard let index = index(of: id) else { return [] }
    countFailure(index, now: now)
    for (owner, number) in entries[index].owners { count(-number, of: owner, on: index) }
    let isUseless = !entries.remove(at: index).proven
    guard isUseless, !isShutDown, failures >= limits.attempts, !hasLive else { return dispatch(now: now) }
    return waiting.removeAll().map { .fail($0, failure) }
  }

  /// The connection takes no more requests, because of GOAWAY or because it does not work.
  mutating func drain(_ id: ConnectionID, now: NIODeadline) -> [Command] {
    guard let index = index(of: id), entries[index].phase != .draining else { return [] }
    beginDraining(index)
    countFailure(index, now: now)
    return closeIfDrained(index) + dispatch(now: now)
  }

  /// Drains all connections that were opened up to `newest` (nil: all), so that the next request uses a fresh
  /// one.
  mutating func renew(through newest: ConnectionID?, now: NIODeadline) -> [Command] {
    var commands: [Command] = []
    for index in entries.indices where entries[index].phase != .draining {
      guard newest.map({ entries[index].id.number <= $0.number }) ?? true else { continue }
      beginDraining(index)
      commands += closeIfDrained(index)
    }
    return commands + dispatch(now: now)
  }

  /// A PING was sent over the connection.
  mutating func suspected(_ id: ConnectionID, now: NIODeadline) -> [Command] {
    guard let index = index(of: id), entries[index].phase == .ready else { return [] }
    entries[index].phase = .probing
    return dispatch(now: now)
  }

  /// The peer was heard on the connection.
  mutating func alive(_ id: ConnectionID, now: NIODeadline) -> [Command] {
    guard let index = index(of: id) else { return [] }
    entries[index].lastReceived = now
    guard entries[index].phase == .probing else { return [] }
    entries[index].phase = .ready
    return dispatch(now: now)
  }

  /// Refuses new requests and fails the waiting ones; requests under way may finish.
  mutating func shutDown() -> [Command] {
    isShutDown = true
    var commands: [Command] = waiting.removeAll().map { .fail($0, .shuttingDown) }
    for index in entries.indices.reversed() {
      beginDraining(index)
      commands += closeIfDrained(index)
    }
    return commands
  }

  /// Closes every connection, with whatever is under way. One that is still opening is closed once it is
  /// open.
  mutating func closeAll() -> [Command] {
    entries.removeAll { $0.connection == nil }
    return entries.compactMap(\.connection).map { .close($0) }
  }

  // MARK: Decisions

  private mutating func dispatch(now: NIODeadline) -> [Command] {
    var commands: [Command] = []
    live.limit = places
    while !waiting.isEmpty, underWay.refusal(to: nil) == nil {
      guard let freest = freest(now: now) else {
        return isShutDown ? commands : commands + makeRoom(now: now)
      }
      guard
        let (request, owner) = waiting.next(where: { [live, underWay] _, owner in
          live.refusal(to: owner) == nil && underWay.refusal(to: owner) == nil
        })
      else { break }
      commands.append(start(request, of: owner, on: freest))
    }
    return commands
  }

  private mutating func start(
    _ request: Request, of owner: Owner, on freest: (index: Int, connection: Connection)
  ) -> Command {
    count(1, of: owner, on: freest.index)
    return .start(request, freest.connection)
  }

  /// Counts a change of the requests under way on a connection.
  private mutating func count(_ change: Int, of owner: Owner, on index: Int) {
    let number = entries[index].owners[owner, default: 0] + change
    entries[index].owners[owner] = number > 0 ? number : nil
    entries[index].underWay += change
    underWay.add(change, of: owner)
    if entries[index].phase != .draining { live.add(change, of: owner) }
  }

  private mutating func beginDraining(_ index: Int) {
    guard entries[index].phase != .draining else { return }
    entries[index].phase = .draining
    for (owner, number) in entries[index].owners { live.release(number, of: owner) }
  }

  /// How many requests may be under way at a time once all connections are open.
  private var places: Int {
    let streams = entries.lazy.filter { $0.phase != .draining }.map(\.announced).max() ?? 0
    return min(limits.underWay, limits.connections * min(streams, limits.streams))
  }

  /// The ready connection with the fewest requests, if it has room and was heard recently.
  private func freest(now: NIODeadline) -> (index: Int, connection: Connection)? {
    var best: Int?
    for index in entries.indices where hasRoom(entries[index]) && !isQuiet(entries[index], now: now) {
      if let other = best, entries[other].underWay <= entries[index].underWay { continue }
      best = index
    }
    return best.flatMap { index in entries[index].connection.map { (index, $0) } }
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
    entry.underWay == 0 && now - entry.lastReceived > limits.quiet
  }

  /// Makes room for a waiting request: sends a PING over a quiet connection, or else opens another.
  private mutating func makeRoom(now: NIODeadline) -> [Command] {
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
