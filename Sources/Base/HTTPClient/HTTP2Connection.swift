import Basics
import Foundation
import NIOCore
import NIOExtras
import NIOHTTP1
import NIOPosix
import NIOSSL
import NIOTLS
import Synchronization

/// The pool of a connection, to which it reports. Called on the connection's event loop.
package protocol HTTP2ConnectionOwner: Sendable {
  func opened(_ connection: HTTP2Connection, streams: Int)
  func limitChanged(_ id: ConnectionID, streams: Int)
  func draining(_ id: ConnectionID)
  func suspected(_ id: ConnectionID)
  func alive(_ id: ConnectionID)
  func finished(
    _ pending: PendingRequest, on id: ConnectionID, _ ending: Result<ProviderResponse, TransportFailure>)
  /// The peer certainly did not process the request.
  func unprocessed(_ pending: PendingRequest, on id: ConnectionID)
  /// The connection that is being opened waits for its peer; `failure` is what it has failed with if that takes too long.
  func waits(_ id: ConnectionID, orElse failure: ConnectionFailure)
  /// Called once per connection, with the reason.
  func closed(_ id: ConnectionID, wasUp: Bool, failure: TransportFailure)
}

/// The handler of a connection's protocol. Used on its event loop only.
protocol ConnectionHandler: AnyObject {
  func start(_ pendingRequests: [PendingRequest])
  /// Cancels the stream of a request that has already ended.
  func reset(_ stream: HTTP2StreamID, timedOut: Bool)
  /// Sends a PING, to see whether the peer is alive.
  func ping()
  func close(_ failure: TransportFailure)
}

/// A connection as seen from other threads. Hands requests to its event loop in batches.
package final class HTTP2Connection: Sendable {
  let id: ConnectionID
  private let eventLoop: any EventLoop
  private let handler: NIOLoopBound<any ConnectionHandler>
  private let inbox = Mutex<[PendingRequest]>([])

  /// Called on the handler's event loop.
  init(id: ConnectionID, eventLoop: any EventLoop, handler: any ConnectionHandler) {
    self.id = id
    self.eventLoop = eventLoop
    self.handler = NIOLoopBound(handler, eventLoop: eventLoop)
  }

  /// Sends the request. Requests that arrive while the event loop is busy share one wake-up and one flush.
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

  func reset(_ stream: HTTP2StreamID, timedOut: Bool) {
    eventLoop.execute { [handler] in handler.value.reset(stream, timedOut: timedOut) }
  }

  func probe() {
    eventLoop.execute { [handler] in handler.value.ping() }
  }

  /// Closes the connection. It must have no request under way.
  func close() {
    eventLoop.execute { [handler] in handler.value.close(.connectionLost) }
  }
}
