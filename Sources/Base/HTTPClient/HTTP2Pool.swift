import Basics
package import Logging
package import NIOCore
import Synchronization

/// The connections to one origin, for one credential.
package final class HTTP2Pool: Transport {
  private struct State {
    var decisions: PoolState<PendingRequest, HTTP2Connection>
    /// The requests that have not ended, each with its next deadline.
    var pendingRequests: [ObjectIdentifier: (pending: PendingRequest, deadline: NIODeadline)] = [:]
    var nextSweep: NIODeadline?
    var closing: [CheckedContinuation<Void, Never>] = []
    /// How the latest connection ended, if nothing has been answered since.
    var connectionFailure: TransportFailure?
    /// What the connection that is being opened waits for.
    var opening: ConnectionFailure?

    /// Why a request got no connection by its deadline.
    var withoutConnection: TransportFailure {
      connectionFailure ?? (decisions.isConnected ? nil : opening).map { .unconnected($0) } ?? .timeout
    }

    /// A sweep that has to be scheduled after the lock is released.
    var newSweep: NIODeadline?

    /// Has a sweep check the request at its deadline.
    mutating func watch(_ pending: PendingRequest, until deadline: NIODeadline) {
      pendingRequests[ObjectIdentifier(pending)] = (pending, deadline)
      guard nextSweep.map({ deadline < $0 }) ?? true else { return }
      nextSweep = deadline
      newSweep = deadline
    }

    mutating func forget(_ pending: PendingRequest) {
      pendingRequests[ObjectIdentifier(pending)] = nil
    }
  }

  private typealias Commands = [PoolState<PendingRequest, HTTP2Connection>.Command]

  /// How often a request that was certainly not processed is sent again.
  private static let refusals = 10
  /// Deadlines closer together than this share a sweep.
  private static let sweepSpacing = TimeAmount.milliseconds(5)

  private let connector: Connector
  private let group: any EventLoopGroup
  private let answerTimeout: TimeAmount
  private let logger: Logger
  private let connectionsChanged: @Sendable (Int) -> Void
  private let state: Mutex<State>

  /// Connects on first use.
  ///
  /// - Parameter connectionsChanged: gets +1 and -1 as connections open and close.
  package init(
    connector: Connector, group: any EventLoopGroup, limits: PoolLimits = .init(), logger: Logger,
    connectionsChanged: @escaping @Sendable (Int) -> Void = { _ in }
  ) {
    self.connector = connector
    self.group = group
    self.logger = logger
    self.connectionsChanged = connectionsChanged
    answerTimeout = limits.answerTimeout
    state = Mutex(State(decisions: PoolState(limits: limits)))
  }

  // MARK: Transport

  package func send(_ request: ProviderRequest, deadline: NIODeadline) async -> Awaited<
    Result<ProviderResponse, TransportFailure>
  > {
    let pending = PendingRequest(request)
    return await withTaskCancellationHandler {
      await withContinuation { continuation in
        guard pending.attach(continuation) else { return }
        admit(pending, deadline)
      }
    } onCancel: {
      if !detachCaller(of: pending) { fail(pending, .cancelled) }
    }
  }

  package func retire(_ connection: ConnectionID) {
    decide { $0.decisions.drain(connection, now: $1) }
  }

  package func renew(through newest: ConnectionID?) {
    decide { $0.decisions.renew(through: newest, now: $1) }
  }

  package func close() {
    decide { state, _ in state.decisions.shutDown() }
  }

  package func shutdown(deadline: NIODeadline?) async {
    close()
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

  // MARK: Commands

  private func decide(_ body: @Sendable (inout State, NIODeadline) -> Commands) {
    let (commands, sweep, closed) = state.withLock { state in
      let commands = body(&state, .now())
      let isClosed = state.decisions.isShutDown && state.decisions.isEmpty
      defer {
        state.newSweep = nil
        if isClosed { state.closing = [] }
      }
      return (commands, state.newSweep, isClosed ? state.closing : [])
    }
    if let sweep { scheduleSweep(sweep) }
    perform(commands)
    for continuation in closed { continuation.resume() }
  }

  private func perform(_ commands: Commands) {
    for command in commands {
      switch command {
      case .start(let pending, let connection): connection.start(pending)
      case .fail(let pending, let failure): fail(pending, failure)
      case .connect(let id, let delay):
        let eventLoop = group.next()
        eventLoop.scheduleTask(in: delay) { [self] in connector.connect(id, owner: self, on: eventLoop) }
      case .probe(let connection): connection.probe()
      case .close(let connection): connection.close()
      }
    }
  }

  /// Fails every request and closes all connections.
  private func abandon() {
    let pendingRequests = state.withLock { state in state.pendingRequests.values.map(\.pending) }
    for pending in pendingRequests { fail(pending, .abandoned) }
    decide { state, _ in state.decisions.closeAll() }
  }

  // MARK: Deadlines

  private func admit(_ pending: PendingRequest, _ deadline: NIODeadline) {
    decide { state, now in
      state.watch(pending, until: deadline)
      return state.decisions.add(pending, of: pending.request.owner, now: now)
    }
    // Cancelled meanwhile, when the cancellation handler could not find it yet.
    if pending.isOver { forget(pending) }
  }

  private func scheduleSweep(_ deadline: NIODeadline) {
    group.any().scheduleTask(deadline: deadline) { [weak self] in self?.sweep(deadline) }
  }

  /// Checks every request whose deadline has come. Nothing else enforces deadlines, so a broken connection
  /// cannot keep a caller waiting. At its first deadline a request under way loses only its caller; at its
  /// second it fails.
  private func sweep(_ scheduled: NIODeadline) {
    let now = NIODeadline.now()
    let (late, failure, next) = state.withLock {
      state -> ([PendingRequest], TransportFailure, NIODeadline?) in
      // An earlier deadline was added since, and its sweep handles the rest.
      guard state.nextSweep == scheduled else { return ([], .timeout, nil) }
      let late = state.pendingRequests.filter { $0.value.deadline <= now }
      for id in late.keys { state.pendingRequests[id] = nil }
      state.nextSweep = state.pendingRequests.values.lazy.map(\.deadline).min().map {
        max($0, now + Self.sweepSpacing)
      }
      return (late.values.map(\.pending), state.withoutConnection, state.nextSweep)
    }
    if let next { scheduleSweep(next) }
    for pending in late where !detachCaller(of: pending) {
      // A request that was never sent waited for a connection, so the connection's failure says more than a
      // timeout.
      fail(pending, pending.isUnderWay ? .unanswered : failure)
    }
    guard !late.isEmpty else { return }
    state.withLock { state in state.decisions.removeWaiting { $0.isOver } }
  }

  /// Lets the caller go on without the answer.
  ///
  /// - Returns: false if the request is not under way, or nobody waits.
  private func detachCaller(of pending: PendingRequest) -> Bool {
    guard answerTimeout > .zero, pending.detachCaller() else { return false }
    decide { [answerTimeout] state, now in
      state.watch(pending, until: now + answerTimeout)
      return []
    }
    // Answered meanwhile, so there is no deadline to check.
    if pending.isOver { forget(pending) }
    return true
  }

  /// Fails a request and resets its stream, if it has one.
  private func fail(_ pending: PendingRequest, _ failure: TransportFailure) {
    if let stream = pending.finish(.failure(failure)) {
      stream.connection.reset(stream.id, timedOut: failure == .timeout || failure == .unanswered)
    }
    forget(pending)
  }

  private func forget(_ pending: PendingRequest) {
    state.withLock { $0.forget(pending) }
  }
}

package typealias PoolLimits = PoolState<PendingRequest, HTTP2Connection>.Limits

// MARK: - What the connections report

extension HTTP2Pool: HTTP2ConnectionOwner {
  package func opened(_ connection: HTTP2Connection, streams: Int) {
    logger.debug("connection opened", metadata: ["streams": "\(streams)"])
    connectionsChanged(1)
    decide { $0.decisions.opened(connection.id, connection, streams: streams, now: $1) }
  }

  package func waits(_ id: ConnectionID, orElse failure: ConnectionFailure) {
    state.withLock { $0.opening = failure }
  }

  package func limitChanged(_ id: ConnectionID, streams: Int) {
    decide { $0.decisions.limitChanged(id, streams: streams, now: $1) }
  }

  package func draining(_ id: ConnectionID) {
    decide { $0.decisions.drain(id, now: $1) }
  }

  package func suspected(_ id: ConnectionID) {
    decide { $0.decisions.suspected(id, now: $1) }
  }

  package func alive(_ id: ConnectionID) {
    decide { $0.decisions.alive(id, now: $1) }
  }

  package func finished(
    _ pending: PendingRequest, on id: ConnectionID, _ ending: Result<ProviderResponse, TransportFailure>
  ) {
    let answered = (try? ending.get()) != nil
    decide { state, now in
      state.forget(pending)
      if answered { state.connectionFailure = nil }
      return state.decisions.finished(
        on: id, of: pending.request.owner, answered: answered, now: now)
    }
    pending.finish(ending)
  }

  package func unprocessed(_ pending: PendingRequest, on id: ConnectionID) {
    let again = pending.refused(limit: Self.refusals)
    decide { state, now in
      let owner = pending.request.owner
      let commands = state.decisions.finished(on: id, of: owner, answered: false, now: now)
      return commands + (again ? state.decisions.add(pending, of: owner, again: true, now: now) : [])
    }
    if !again { fail(pending, .refused) }
  }

  package func closed(_ id: ConnectionID, wasUp: Bool, failure: TransportFailure) {
    logger.debug(wasUp ? "connection closed" : "no connection", metadata: ["reason": "\(failure)"])
    if wasUp { connectionsChanged(-1) }
    decide { state, now in
      state.connectionFailure = failure
      return state.decisions.closed(id, failure, now: now)
    }
  }
}
