import Logging
import NIOCore
import Synchronization

/// The connections to one origin, for one credential.
final class HTTP2Pool: Transport {
  private struct State {
    var decisions: PoolState<Exchange, HTTP2Connection>
    /// Every request that has not ended, with the time at which it is to be looked at.
    var exchanges: [ObjectIdentifier: (exchange: Exchange, deadline: NIODeadline)] = [:]
    var nextSweep: NIODeadline?
    var closing: [CheckedContinuation<Void, Never>] = []
  }

  private typealias Commands = [PoolState<Exchange, HTTP2Connection>.Command]

  /// How often a request that was certainly not processed goes out again.
  private static let refusals = 10
  /// Deadlines closer together than this are looked at together.
  private static let sweepSpacing = TimeAmount.milliseconds(5)

  private let connector: HTTP2Connector
  private let group: any EventLoopGroup
  private let patience: TimeAmount
  private let logger: Logger
  private let connectionsChanged: @Sendable (Int) -> Void
  private let state: Mutex<State>

  /// A pool that connects on first use.
  ///
  /// - Parameter connectionsChanged: gets +1 and -1 as connections come and go.
  init(
    connector: HTTP2Connector, group: any EventLoopGroup, limits: PoolLimits = .init(), logger: Logger,
    connectionsChanged: @escaping @Sendable (Int) -> Void = { _ in }
  ) {
    self.connector = connector
    self.group = group
    self.patience = limits.patience
    self.logger = logger
    self.connectionsChanged = connectionsChanged
    self.state = Mutex(State(decisions: PoolState(limits: limits)))
  }

  // MARK: Transport

  func send(_ request: ProviderRequest, deadline: NIODeadline) async -> Attempt<Exchange.Ending> {
    let exchange = Exchange(request)
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        guard exchange.attach(continuation) else { return }
        admit(exchange, deadline)
      }
    } onCancel: {
      if !leave(exchange) { giveUp(exchange, .cancelled) }
    }
  }

  func retire(_ connection: ConnectionID) {
    decide { $0.drain(connection, now: $1) }
  }

  func renew(through newest: ConnectionID?) {
    decide { $0.renew(through: newest, now: $1) }
  }

  func shutdown(deadline: NIODeadline?) async {
    decide { decisions, _ in decisions.shutDown() }
    let limit = deadline.map { group.any().scheduleTask(deadline: $0) { [weak self] in self?.abandon() } }
    defer { limit?.cancel() }
    await withCheckedContinuation { continuation in
      let isEmpty = state.withLock { state in
        if !state.decisions.isEmpty { state.closing.append(continuation) }
        return state.decisions.isEmpty
      }
      if isEmpty { continuation.resume() }
    }
  }

  // MARK: Decisions into deeds

  private func decide(
    _ body: @Sendable (inout PoolState<Exchange, HTTP2Connection>, NIODeadline) -> Commands
  ) {
    let (commands, closed) = state.withLock { state -> (Commands, [CheckedContinuation<Void, Never>]) in
      let commands = body(&state.decisions, .now())
      guard state.decisions.isShutDown, state.decisions.isEmpty else { return (commands, []) }
      defer { state.closing = [] }
      return (commands, state.closing)
    }
    perform(commands)
    for continuation in closed { continuation.resume() }
  }

  private func perform(_ commands: Commands) {
    for command in commands {
      switch command {
      case .start(let exchange, let connection): connection.start(exchange)
      case .fail(let exchange, let failure): giveUp(exchange, failure)
      case .connect(let id, let delay):
        let eventLoop = group.next()
        eventLoop.scheduleTask(in: delay) { [self] in connector.connect(id, owner: self, on: eventLoop) }
      case .probe(let connection): connection.probe()
      case .close(let connection): connection.close()
      }
    }
  }

  /// Gives up whatever is under way, and closes all connections with it.
  private func abandon() {
    let exchanges = state.withLock { state in state.exchanges.values.map(\.exchange) }
    for exchange in exchanges { giveUp(exchange, .abandoned) }
    decide { decisions, _ in decisions.closeAll() }
  }

  // MARK: Deadlines

  private func admit(_ exchange: Exchange, _ deadline: NIODeadline) {
    watch(exchange, until: deadline)
    decide { $0.add(exchange, now: $1) }
    // Cancelled while it was let in: the handler found nothing to give up then.
    if exchange.isOver { forget(exchange) }
  }

  private func watch(_ exchange: Exchange, until deadline: NIODeadline) {
    let isFirst = state.withLock { state in
      state.exchanges[ObjectIdentifier(exchange)] = (exchange, deadline)
      let isFirst = state.nextSweep.map { deadline < $0 } ?? true
      if isFirst { state.nextSweep = deadline }
      return isFirst
    }
    if isFirst { scheduleSweep(deadline) }
  }

  private func scheduleSweep(_ deadline: NIODeadline) {
    group.any().scheduleTask(deadline: deadline) { [weak self] in self?.sweep(deadline) }
  }

  /// Looks at every request whose deadline has come, wherever it is: nothing else is needed for that,
  /// so no fault of a connection can leave anybody waiting. What is under way is left to itself the first
  /// time, and given up the second.
  private func sweep(_ scheduled: NIODeadline) {
    let now = NIODeadline.now()
    let (late, next) = state.withLock { state -> ([Exchange], NIODeadline?) in
      // An earlier deadline has come in since, and its sweep looks after the rest.
      guard state.nextSweep == scheduled else { return ([], nil) }
      let late = state.exchanges.filter { $0.value.deadline <= now }
      for id in late.keys { state.exchanges[id] = nil }
      state.nextSweep = state.exchanges.values.lazy.map(\.deadline).min().map {
        max($0, now + Self.sweepSpacing)
      }
      return (late.values.map(\.exchange), state.nextSweep)
    }
    if let next { scheduleSweep(next) }
    for exchange in late where !leave(exchange) { giveUp(exchange, .timeout) }
    guard !late.isEmpty else { return }
    state.withLock { state in state.decisions.removeWaiting { $0.isOver } }
  }

  /// Whoever waits for the request goes on without its answer; false if it is not under way, or nobody waits.
  private func leave(_ exchange: Exchange) -> Bool {
    guard patience > .zero, exchange.leave() else { return false }
    watch(exchange, until: .now() + patience)
    // Answered in between: there is nothing to watch.
    if exchange.isOver { forget(exchange) }
    return true
  }

  /// Ends a request that has no answer; its stream, if it has one, is reset.
  private func giveUp(_ exchange: Exchange, _ failure: TransportFailure) {
    if let place = exchange.end(.failure(failure)) {
      place.connection.reset(place.stream, timedOut: failure == .timeout)
    }
    forget(exchange)
  }

  private func forget(_ exchange: Exchange) {
    state.withLock { state in _ = state.exchanges.removeValue(forKey: ObjectIdentifier(exchange)) }
  }
}

typealias PoolLimits = PoolState<Exchange, HTTP2Connection>.Limits

// MARK: - What the connections report

extension HTTP2Pool: HTTP2ConnectionOwner {
  func opened(_ connection: HTTP2Connection, streams: Int) {
    logger.debug("connection opened", metadata: ["streams": "\(streams)"])
    connectionsChanged(1)
    decide { $0.opened(connection.id, connection, streams: streams, now: $1) }
  }

  func limitChanged(_ id: ConnectionID, streams: Int) {
    decide { $0.limitChanged(id, streams: streams, now: $1) }
  }

  func draining(_ id: ConnectionID) {
    decide { $0.drain(id, now: $1) }
  }

  func suspected(_ id: ConnectionID) {
    decide { $0.suspected(id, now: $1) }
  }

  func alive(_ id: ConnectionID) {
    decide { $0.alive(id, now: $1) }
  }

  func finished(_ exchange: Exchange, on id: ConnectionID, _ ending: Exchange.Ending) {
    let answered = (try? ending.get()) != nil
    forget(exchange)
    decide { $0.finished(on: id, answered: answered, now: $1) }
    exchange.end(ending)
  }

  func unprocessed(_ exchange: Exchange, on id: ConnectionID) {
    let again = exchange.refused(limit: Self.refusals)
    decide { decisions, now in
      let commands = decisions.finished(on: id, answered: false, now: now)
      return commands + (again ? decisions.add(exchange, again: true, now: now) : [])
    }
    if !again { giveUp(exchange, .refused) }
  }

  func closed(_ id: ConnectionID, failure: TransportFailure?) {
    if let failure {
      logger.warning("no connection", metadata: ["reason": "\(failure)"])
    } else {
      logger.debug("connection closed")
      connectionsChanged(-1)
    }
    decide { $0.closed(id, failure ?? .connectionLost, now: $1) }
  }
}
