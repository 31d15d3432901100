import NIOCore

/// Decides when a connection is read and when it closes, and enforces the time limit of requests. ``HTTPConnection`` tells it
/// what happens, and does what it says.
///
/// - Each request has to arrive completely in time, counted from the opening of the connection or the end of
///   the last answer. The time stops only while a complete request waits for its answer.
/// - A long body is read only once the handler asks for it, and then a part each time that it asks. With
///   `Expect: 100-continue` the client is then told to continue (RFC 9110 10.1.1), or gets the final answer without
///   having sent the body.
/// - While a request is being answered nothing more is read, nor while the peer leaves answers unread: what would follow waits
///   at its sender, not in this process.
/// - The connection closes with the answer to a request that ends HTTP on it (CONNECT, an upgrade), with the
///   last of too many pipelined requests, and after malformed input. Nothing is read after those.
/// - When the listener shuts down (`ChannelShouldQuiesceEvent`), the connection closes with its next answer,
///   which says so. A request that has begun is completed. A connection that had no request yet stays open
///   for a moment, because chat servers open one per request and do not retry; one that had is kept for as
///   long as a next request may take to arrive.
final class RequestGate {
  /// The number of pipelined requests after which the connection closes (RFC 9112 9.3.2). One read may yield several.
  static let maximumPipelined = 16
  /// Bytes of a body that is worth a large receive buffer.
  private static let largeBody = 64 << 10
  /// How long a connection may be silent during shutdown before its first request.
  private static let shutdownTimeout = TimeAmount.seconds(2)
  /// How long a connection may be silent during shutdown after an answer.
  private static let nextRequestTimeout = TimeAmount.milliseconds(100)

  private let channel: any Channel
  /// Nil in tests without bytes.
  private let connectionGuard: ConnectionGuard?

  private var timeout: TimeAmount
  /// When the request being received must be complete; nil while none is expected.
  private var deadline: NIODeadline?
  private var timer: (task: Scheduled<Void>, fires: NIODeadline)?

  /// Requests that have begun, minus answers that have ended.
  private var open = 0
  /// Requests that are complete, minus answers that have ended.
  private var waiting = 0
  private var wasUsed = false
  private var isShuttingDown = false

  /// Whether the latest request's body is read only as it is asked for.
  private var isBodyLong = false
  /// Whether more of that body is there to be read, and has not been asked for yet.
  private var isBodyHeld = false
  /// Its declared length.
  private var bodyLength = 0
  /// Whether the client waits for `100 Continue` before it sends that body.
  private var isContinueExpected = false
  /// Whether the latest request is the last one on the connection.
  private var isLast = false
  /// Whether nothing that arrives is taken any more.
  private(set) var isReadingStopped = false
  /// Whether the connection closes with the present answer.
  private var endsWithAnswer = false

  init(_ channel: any Channel, _ connectionGuard: ConnectionGuard?, timeout: TimeAmount) {
    self.channel = channel
    self.connectionGuard = connectionGuard
    self.timeout = timeout
    startClock()
  }

  /// Whether more may be read.
  var mayRead: Bool { !isBodyHeld && !isReadingStopped && waiting <= 0 && channel.isWritable }

  // MARK: Requests

  /// The head of a request has arrived.
  func begin(_ framing: BodyFraming, mayBeFollowed: Bool) {
    connectionGuard?.requestContinues()
    open += 1
    wasUsed = true
    isBodyLong = framing.isLong
    isBodyHeld = framing.isLong
    bodyLength = framing.length ?? 0
    isContinueExpected =
      isBodyHeld && framing.expectation?.dropping(prefix: "100-continue")?.isEmpty == true
    isLast = isShuttingDown || !mayBeFollowed || open == Self.maximumPipelined
    guard isShuttingDown else { return }
    timeout = Self.shutdownTimeout
    restartClock()
  }

  /// A part of its body has arrived.
  func `continue`() {
    connectionGuard?.requestContinues()
    isContinueExpected = false
    isBodyHeld = isBodyLong
    if isShuttingDown { restartClock() }
  }

  /// The request is complete.
  func complete() {
    connectionGuard?.requestContinues()
    countWaiting(1)
    if isLast { stopReading() }
    dropBody()
  }

  /// Whoever answers the request asks for more of its body.
  ///
  /// - Returns: whether the client is to be told to continue.
  func bodyIsWanted() -> Bool {
    // While an earlier request is being answered, an informational answer cannot be sent.
    let sendsContinue = isContinueExpected && open == 1
    if isBodyHeld, bodyLength > Self.largeBody, connectionGuard?.enlargeReceiveBuffer() == true {
      // What it holds beyond this body nobody counts.
      isLast = true
    }
    bodyLength = 0
    isBodyHeld = false
    isContinueExpected = false
    return sendsContinue
  }

  /// What arrives is not HTTP, or the listener ends.
  func stopReading() {
    isReadingStopped = true
    connectionGuard?.stopReading()
  }

  /// The connection closes with the answer to the latest request, of whose body no more can be read.
  func endWithAnswer() { isLast = true }

  func shutDown() {
    isShuttingDown = true
    timeout = wasUsed && open == 0 ? Self.nextRequestTimeout : Self.shutdownTimeout
    restartClock()
    guard open > 0 else { return }
    isLast = true
    if waiting == open { stopReading() }
  }

  private func dropBody() {
    isBodyLong = false
    isBodyHeld = false
    isContinueExpected = false
  }

  // MARK: Answers

  /// - Parameter saysLength: whether the client knows where the answer ends while the connection is open.
  /// - Returns: whether the connection closes with it, which it has to say.
  func beginAnswer(saysLength: Bool) -> Bool {
    // With `isContinueExpected` the body may still come, and would be taken for another request.
    if !saysLength || open == 1 && (isContinueExpected || isLast) { endsWithAnswer = true }
    return endsWithAnswer
  }

  /// - Returns: whether the connection closes.
  func endAnswer() -> Bool {
    open -= 1
    countWaiting(-1)
    if endsWithAnswer || isLast && open == 0 { return true }
    // What is left of a body that nobody asked for is read and discarded.
    if open == 0 { dropBody() }
    return false
  }

  /// The connection closes once everything written is sent.
  func closeWhenSent() { connectionGuard?.closeWhenSent() }

  // MARK: The clock

  private func countWaiting(_ change: Int) {
    waiting += change
    connectionGuard?.connection?.isAnswering = waiting > 0
    if waiting > 0 { deadline = nil } else { startClock() }
  }

  private func restartClock() {
    if waiting <= 0 { startClock() }
  }

  private func startClock() {
    deadline = channel.eventLoop.now + timeout
    if let timer, let deadline, timer.fires <= deadline { return }
    setTimer()
  }

  func stopClock() { deadline = nil }

  /// One timer serves many requests, and is set again if the deadline has moved when it fires. Setting and
  /// cancelling one per request would cost more than the rest of this class.
  private func setTimer() {
    timer?.task.cancel()
    timer = nil
    guard let deadline else { return }
    let task = channel.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) {
      self.timer = nil
      guard let deadline = self.deadline else { return }
      guard deadline <= self.channel.eventLoop.now else { return self.setTimer() }
      if !self.isShuttingDown { self.connectionGuard?.countClosed(.timeout) }
      self.channel.close(promise: nil)
    }
    timer = (task, deadline)
  }

  /// The connection is closed.
  func end() {
    deadline = nil
    timer?.task.cancel()
  }
}
