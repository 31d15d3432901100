import NIOCore

/// Whether a connection still does its work, judged without I/O.
///
/// Two ways to be wedged: the peer is silent (a forgotten NAT entry, a dead machine), which a PING
/// finds out, or it answers PINGs but no requests, which shows when none is answered for long.
struct ConnectionHealth {
  struct Limits: Sendable {
    /// With requests under way, silence after which a PING goes out.
    var silence = TimeAmount.seconds(5)
    /// How long the answer to a PING may take.
    var pingTimeout = TimeAmount.seconds(3)
    /// With requests under way for so long, none answered, the connection is replaced. Longer than a provider
    /// is slow: what is under way goes on, but a connection for each few requests would help nobody.
    var stall = TimeAmount.seconds(30)
    /// Requests timed out in a row, none answered between them, after which the connection is replaced.
    var timeouts = 3
    /// A request that timed out sooner than this says nothing about the connection.
    var fairChance = TimeAmount.seconds(3)
    /// How often to look.
    var tick = TimeAmount.seconds(1)
  }

  enum Verdict: Equatable {
    case well
    /// Send a PING and nothing else until it is answered.
    case ask
    /// Use it for nothing new.
    case replace
    /// It is gone: what is under way will not be answered.
    case dead
  }

  let limits: Limits
  private var heard: NIODeadline
  /// Since when requests are under way and none is answered.
  private var stalled: NIODeadline
  private(set) var asked: NIODeadline?
  private var timeouts = 0

  init(limits: Limits = Limits(), now: NIODeadline) {
    self.limits = limits
    self.heard = now
    self.stalled = now
  }

  /// Something came from the peer.
  mutating func heard(now: NIODeadline) {
    heard = now
  }

  /// A request was answered.
  mutating func answered(now: NIODeadline) {
    timeouts = 0
    stalled = now
  }

  /// A PING goes out.
  mutating func ask(now: NIODeadline) {
    asked = asked ?? now
  }

  /// A PING was answered.
  mutating func pong() {
    asked = nil
  }

  /// A request that was sent at `sent` had no answer in time.
  mutating func timedOut(sent: NIODeadline, now: NIODeadline) -> Verdict {
    guard now - sent >= limits.fairChance else { return .well }
    timeouts += 1
    if timeouts >= limits.timeouts { return .replace }
    return asked == nil ? .ask : .well
  }

  /// Looks after the connection from time to time.
  func check(underWay: Int, now: NIODeadline) -> Verdict {
    if let asked { return now - asked >= limits.pingTimeout ? .dead : .well }
    // Silence before the requests were sent is no sign of anything.
    guard underWay > 0 else { return .well }
    if now - stalled >= limits.stall { return .replace }
    return now - heard >= limits.silence ? .ask : .well
  }

  /// A request goes out over a connection that was idle: silence counts from here.
  mutating func wake(now: NIODeadline) {
    heard = max(heard, now)
    stalled = max(stalled, now)
  }
}

/// What waits, of several owners: each of them has its turn, and what one of them has comes in its order.
struct Turns<Element> {
  private var queues: [Owner: CircularBuffer<Element>] = [:]
  /// The owners with something waiting, whose turn is next first.
  private var order = CircularBuffer<Owner>()
  private(set) var count = 0

  var isEmpty: Bool { count == 0 }

  func count(of owner: Owner) -> Int { queues[owner]?.count ?? 0 }

  mutating func append(_ element: Element, of owner: Owner) {
    if queues[owner] == nil { order.append(owner) }
    queues[owner, default: []].append(element)
    count += 1
  }

  /// Goes before all others.
  mutating func prepend(_ element: Element, of owner: Owner) {
    order.removeAll { $0 == owner }
    order.prepend(owner)
    queues[owner, default: []].prepend(element)
    count += 1
  }

  /// Takes the first element of the owner whose turn it is, of those that may have one.
  mutating func next(where mayHave: (Owner) -> Bool) -> (Element, Owner)? {
    for _ in 0..<order.count {
      let owner = order.removeFirst()
      guard mayHave(owner) else {
        order.append(owner)
        continue
      }
      let element = queues[owner]?.popFirst()
      if queues[owner]?.isEmpty == true { queues[owner] = nil } else { order.append(owner) }
      guard let element else { continue }
      count -= 1
      return (element, owner)
    }
    return nil
  }

  /// Takes out those of which this is true.
  mutating func removeAll(where isOver: (Element) -> Bool) {
    for owner in order { queues[owner]?.removeAll(where: isOver) }
    queues = queues.filter { !$0.value.isEmpty }
    order.removeAll { queues[$0] == nil }
    count = queues.values.reduce(0) { $0 + $1.count }
  }

  /// Takes out all.
  mutating func removeAll() -> [Element] {
    defer { self = Turns() }
    return order.flatMap { queues[$0].map(Array.init) ?? [] }
  }
}
