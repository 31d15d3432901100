import Basics
import HTTPClient
import Metrics
import NIOCore
import Synchronization

/// The open connections of a listener. Limits their number, in all and for each source, and notifies them
/// when the listener shuts down.
///
/// A connection over a limit is closed unread. If the total is reached, a new connection displaces one that
/// is idle or stalled, so that nobody can block others by holding connections open.
final class OpenConnections: Sendable {
  struct Limits: Sendable {
    var total: Int
    var perSource: Int
    /// Reverse proxies, which are exempt from `perSource` because many clients share them.
    var proxies: [ClientAddress.Network] = []
    /// Bytes that may wait in the kernel to be read.
    var receiveMemory = 64 << 20
  }

  private struct State {
    var isShuttingDown = false
    var all: [ObjectIdentifier: OpenConnection] = [:]
    /// The connections of each source, the oldest first, without those of proxies.
    var shares: [ClientAddress: [OpenConnection]] = [:]
    var accepted = 0
    var closing = 0
    /// The number of the latest connection.
    var lastNumber = 0
  }

  /// How many connections may be closing at a time. Each holds a descriptor until it is closed.
  private static let maximumClosing = 16

  /// A source with up to this many connections is not considered to hold many.
  private static let modestShare = 8

  private let limits: Limits
  let buffers: ReceiveBuffers
  let metrics: ConnectionMetrics
  private let state = Mutex(State())

  init(_ limits: Limits, _ metrics: ConnectionMetrics) {
    self.limits = limits
    buffers = ReceiveBuffers(memory: limits.receiveMemory, connections: limits.total)
    self.metrics = metrics
  }

  /// Whether a connection was accepted and is not open yet: it would be lost if the listener's channel were closed now.
  var hasPendingAccepts: Bool { state.withLock { $0.accepted > 0 } }

  /// Whether accepting has to wait until closing connections are closed.
  private var isClosingLimitReached: Bool { state.withLock { $0.closing >= Self.maximumClosing } }

  /// Registers an accepted connection.
  ///
  /// - Returns: whether it may stay; otherwise it is being closed.
  private func register(_ channel: any Channel) -> Bool {
    let address = ClientAddress(channel.remoteAddress)
    let source = limits.proxies.contains { $0.contains(address) } ? nil : address.source
    let (mayStay, displaced) = state.withLock { state -> (Bool, OpenConnection?) in
      let share = source.flatMap { state.shares[$0]?.count } ?? 0
      let isFull = state.all.count - state.closing >= limits.total
      let displaced = isFull ? displaceable(in: state, by: share) : nil
      let mayStay = share < limits.perSource && (!isFull || displaced != nil)
      state.lastNumber += 1
      let connection = OpenConnection(channel, source: mayStay ? source : nil, number: state.lastNumber)
      state.all[ObjectIdentifier(channel)] = connection
      metrics.record(open: state.all.count)
      guard mayStay else {
        metrics.countClosed(isFull ? .full : .share)
        connection.phase = .closing
        state.closing += 1
        return (false, nil)
      }
      state.accepted += 1
      if let source { state.shares[source, default: []].append(connection) }
      if let displaced {
        displaced.phase = .closing
        state.closing += 1
      }
      return (true, displaced)
    }
    channel.closeFuture.whenComplete { _ in self.remove(channel) }
    if let displaced { displaced.channel.pipeline.fireUserInboundEventTriggered(Displaced()) }
    if !mayStay { channel.close(promise: nil) }
    return mayStay
  }

  /// The connection to displace for a new one, whose source has `share`: a stalled one; else the oldest idle
  /// one of the source with most connections, or, if no source has many, the oldest idle one of all.
  private func displaceable(in state: State, by share: Int) -> OpenConnection? {
    guard state.closing < Self.maximumClosing,
      let largest = state.shares.values.max(by: { $0.count < $1.count })
    else { return nil }
    if let stalled = state.shares.values.lazy.compactMap({ $0.first { $0.isDisplaceable && $0.isStalled } })
      .first
    {
      return stalled
    }
    guard largest.count <= Self.modestShare else {
      return share < largest.count ? largest.first { $0.isDisplaceable } : nil
    }
    return state.shares.values.compactMap { $0.first { $0.isDisplaceable } }.min { $0.number < $1.number }
  }

  private func remove(_ channel: any Channel) {
    state.withLock { state in
      guard let connection = state.all.removeValue(forKey: ObjectIdentifier(channel)) else { return }
      metrics.record(open: state.all.count)
      switch connection.phase {
      case .accepted: state.accepted -= 1
      case .open: break
      case .closing: state.closing -= 1
      }
      guard let source = connection.source else { return }
      state.shares[source]?.removeAll { $0 === connection }
      if state.shares[source]?.isEmpty == true { state.shares[source] = nil }
    }
  }

  func connection(of channel: any Channel) -> OpenConnection? {
    state.withLock { $0.all[ObjectIdentifier(channel)] }
  }

  /// Marks a connection as open once its handlers are in place.
  func markOpen(_ channel: any Channel) {
    let isShuttingDown = state.withLock { state in
      // Otherwise it has been closed.
      if let connection = state.all[ObjectIdentifier(channel)], connection.phase == .accepted {
        connection.phase = .open
        state.accepted -= 1
      }
      return state.isShuttingDown
    }
    if isShuttingDown { Self.requestClose(channel) }
  }

  /// Has all present and future connections close with their next answer.
  func shutDown() {
    let connections = state.withLock { state in
      state.isShuttingDown = true
      return state.all.values.filter { $0.phase == .open }
    }
    for connection in connections { Self.requestClose(connection.channel) }
  }

  private static func requestClose(_ channel: any Channel) {
    channel.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent())
  }

  /// Keeps a connection that was to be displaced, because it is being answered meanwhile.
  func cancelDisplacement(of connection: OpenConnection) {
    state.withLock { state in
      connection.phase = .open
      state.closing -= 1
    }
  }

  struct Displaced {}

  /// Counts a listener's new connections and closes those over the limit.
  final class Counting: ChannelInboundHandler, ChannelOutboundHandler, Sendable {
    typealias InboundIn = any Channel
    typealias OutboundIn = any Channel

    private let connections: OpenConnections

    init(_ connections: OpenConnections) {
      self.connections = connections
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      if connections.register(unwrapInboundIn(data)) { context.fireChannelRead(data) }
    }

    /// Stops accepting for a moment while too many closing connections hold their descriptors.
    func read(context: ChannelHandlerContext) {
      guard connections.isClosingLimitReached else { return context.read() }
      let channel = context.channel
      context.eventLoop.scheduleTask(in: .milliseconds(1)) {
        // If automatic reading is off, whoever switched it off reads when switching it on.
        if try channel.syncOptions?.getOption(.autoRead) ?? true { channel.read() }
      }
    }
  }
}

final class OpenConnection: Sendable {
  let channel: any Channel
  /// The source that it counts for; nil for a reverse proxy.
  let source: ClientAddress?
  /// Grows with each connection.
  let number: Int
  private let current = Atomic(Phase.accepted)
  private let answering = Atomic(false)
  private let stalled = Atomic(false)

  enum Phase: UInt8, AtomicRepresentable {
    /// Accepted, but its event loop does not handle it yet.
    case accepted
    case open
    /// Told to close, but still open.
    case closing
  }

  init(_ channel: any Channel, source: ClientAddress?, number: Int) {
    self.channel = channel
    self.source = source
    self.number = number
  }

  /// Set only by ``OpenConnections``, which counts the phases.
  var phase: Phase {
    get { current.load(ordering: .relaxed) }
    set { current.store(newValue, ordering: .relaxed) }
  }

  /// Whether closing it loses no answer.
  var isDisplaceable: Bool { phase == .open && isIdle }

  /// Whether no answer is pending, or the peer does not read the pending one.
  var isIdle: Bool { !isAnswering || isStalled }

  /// Whether a complete request waits for its answer.
  var isAnswering: Bool {
    get { answering.load(ordering: .relaxed) }
    set { answering.store(newValue, ordering: .relaxed) }
  }

  /// Whether the peer reads nothing of a waiting answer.
  var isStalled: Bool {
    get { stalled.load(ordering: .relaxed) }
    set { stalled.store(newValue, ordering: .relaxed) }
  }
}

struct ConnectionMetrics: Sendable {
  enum Reason: String, CaseIterable, Sendable {
    /// The source reached its limit of connections.
    case share
    /// The total was reached, and no connection could be displaced.
    case full
    /// Displaced by a new connection.
    case displaced
    /// No complete request came in time.
    case timeout
    /// The peer did not read an answer in time.
    case answerNotRead = "answer_not_read"
    /// Too many bytes came that belong to no request.
    case noRequest = "no_request"
  }

  private let open: Gauge
  private let closed: [Reason: Counter]
  private let keyExchanges: KeyExchangeMetrics
  private let leg: String

  init(listener: String) {
    leg = listener
    keyExchanges = KeyExchangeMetrics(legs: [listener], factory: MetricsSystem.factory)
    open = Gauge(label: "push_bouncer_http_connections", dimensions: [("listener", listener)])
    closed = Dictionary(
      uniqueKeysWithValues: Reason.allCases.map { reason in
        let dimensions = [("listener", listener), ("reason", reason.rawValue)]
        return (reason, Counter(label: "push_bouncer_http_connections_closed_total", dimensions: dimensions))
      })
  }

  func record(open count: Int) { open.record(count) }

  func countClosed(_ reason: Reason) { closed[reason]?.increment() }

  func count(_ keyExchange: KeyExchange) { keyExchanges.count(keyExchange, on: leg) }
}
