import NIOCore
import Synchronization

/// What speaks on a connection. To be used on its event loop.
protocol ConnectionHandler: AnyObject {
  /// Sends requests.
  func start(_ pendingRequests: [PendingRequest])
  /// Gives a stream up whose request has ended already.
  func reset(_ stream: HTTP2StreamID, timedOut: Bool)
  /// Asks for a sign of life.
  func ask()
  /// Ends the connection.
  func end(_ failure: TransportFailure)
}

/// A connection as the other threads see it: hands requests over to its event loop, many at a time.
final class HTTP2Connection: Sendable {
  let id: ConnectionID
  private let eventLoop: any EventLoop
  private let handler: NIOLoopBound<any ConnectionHandler>
  private let inbox = Mutex<[PendingRequest]>([])

  /// To be made on the handler's event loop.
  init(id: ConnectionID, eventLoop: any EventLoop, handler: any ConnectionHandler) {
    self.id = id
    self.eventLoop = eventLoop
    self.handler = NIOLoopBound(handler, eventLoop: eventLoop)
  }

  /// Sends the request. What comes while the event loop is busy goes out with one wake-up and one flush.
  func start(_ pending: PendingRequest) {
    let isFirst = inbox.withLock { inbox in
      inbox.append(pending)
      return inbox.count == 1
    }
    guard isFirst else { return }
    eventLoop.execute { [self] in
      let pendingRequests = inbox.withLock { inbox in
        defer { inbox = [] }
        return inbox
      }
      handler.value.start(pendingRequests)
    }
  }

  /// Gives the stream up: nobody waits for its answer.
  func reset(_ stream: HTTP2StreamID, timedOut: Bool) {
    eventLoop.execute { [handler] in handler.value.reset(stream, timedOut: timedOut) }
  }

  /// Asks for a sign of life.
  func probe() {
    eventLoop.execute { [handler] in handler.value.ask() }
  }

  /// Closes the connection, which has nothing under way.
  func close() {
    eventLoop.execute { [handler] in handler.value.end(.connectionLost) }
  }
}
