package import Basics
package import NIOCore
package import NIOHPACK
import Synchronization

/// An HTTP request.
package struct ProviderRequest: Sendable {
  /// Pseudo headers first, all names in lower case.
  package let headers: HPACKHeaders
  /// Makes the body when the request goes out, so that nothing is encrypted for a host that cannot be
  /// reached.
  package let body: @Sendable () -> ByteBuffer
  /// Whose share of the connections the request uses.
  package var owner = Owner.nobody

  package init(headers: HPACKHeaders, body: @escaping @autoclosure @Sendable () -> ByteBuffer) {
    self.headers = headers
    self.body = body
  }
}

/// The answer to an HTTP request.
package struct ProviderResponse: Sendable {
  package var status: Int
  package var headers: HPACKHeaders
  /// The body, cut at ``maximumBody`` bytes.
  package var body: ByteBuffer
  /// Whether the rest of the body is missing: the connection or the stream ended before, or it is longer than
  /// ``maximumBody``.
  package var isCut: Bool
  /// The connection it came over, for ``Transport/retire(_:)``.
  package var connection: ConnectionID?

  /// Longer bodies are cut: providers send a few hundred bytes. Less than a stream's window (65,535 bytes),
  /// so that a longer body is noticed before the peer waits for more window.
  package static let maximumBody = 32_768

  package init(
    status: Int, headers: HPACKHeaders, body: ByteBuffer, isCut: Bool = false, connection: ConnectionID? = nil
  ) {
    self.status = status
    self.headers = headers
    self.body = body
    self.isCut = isCut
    self.connection = connection
  }
}

/// Names a connection within its pool.
package struct ConnectionID: Hashable, Sendable {
  let number: Int
}

/// Sends requests to one origin.
package protocol Transport: AnyObject, Sendable {
  /// Sends the request. Returns at the deadline, a few milliseconds late at most, or when the task is
  /// cancelled. A request that no connection has taken by then is withdrawn; one that is under way continues.
  func send(_ request: ProviderRequest, deadline: NIODeadline) async -> Awaited<
    Result<ProviderResponse, TransportFailure>
  >
  /// Sends no more requests over the connection; those under way continue.
  func retire(_ connection: ConnectionID)
  /// Sends no more requests over connections that were opened up to `newest` (nil: all). Requests under way
  /// continue, and the next request uses a fresh connection.
  func renew(through newest: ConnectionID?)
  /// Refuses new requests from now on. Those under way continue.
  func close()
  /// Does what ``close()`` does, and returns when requests under way have ended or the deadline has passed (nil: no
  /// deadline), with all connections closed.
  func shutdown(deadline: NIODeadline?) async
}

/// An answer that came by the deadline, or is still awaited.
///
/// A push that a provider has received cannot be withdrawn, and sending it again would show it twice. So the
/// deadline ends the waiting, not the request, which goes on until the answer comes or
/// ``PushProviders/answerTimeout`` has passed.
package enum Awaited<Answer: Sendable>: Sendable {
  case ended(Answer)
  /// The provider has the request. The caller must await the answer exactly once, because it also counts for
  /// the route's health.
  case underWay(_ answer: @Sendable () async -> Answer)
}

/// One request and the caller that waits for it. It ends once: with an answer, a failure, or at the deadline.
/// The caller may stop waiting earlier and await the ending later.
package final class PendingRequest: Sendable {
  typealias Ending = Result<ProviderResponse, TransportFailure>
  typealias Caller = Continuation<Awaited<Ending>, Never>

  /// The connection and stream of a request under way.
  struct StreamReference {
    let connection: HTTP2Connection
    let id: HTTP2StreamID
  }

  private struct State {
    /// The caller, until the deadline.
    var caller: Caller?
    /// The caller that awaits a late answer.
    var successor: Continuation<Ending, Never>?
    var ending: Ending?
    /// Whether a connection has sent the request, so that the peer may have it.
    var isUnderWay = false
    var isDetached = false
    var stream: StreamReference?
    var refusals = 0
  }

  let request: ProviderRequest
  private let state = Mutex(State())

  init(_ request: ProviderRequest) {
    self.request = request
  }

  var isOver: Bool { state.withLock { $0.ending != nil } }
  var isUnderWay: Bool { state.withLock { $0.isUnderWay } }

  /// Registers the caller, or resumes it at once if the request has already ended.
  ///
  /// - Returns: whether it was registered.
  func attach(_ continuation: Caller) -> Bool {
    let ending = state.withLock { state in
      if state.ending == nil { state.caller = continuation }
      return state.ending
    }
    guard let ending else { return true }
    continuation.resume(returning: .ended(ending))
    return false
  }

  /// Marks the request as under way, on this stream if it has one.
  ///
  /// - Returns: false if it has already ended.
  func begin(at stream: StreamReference?) -> Bool {
    state.withLock { state in
      guard state.ending == nil else { return false }
      state.isUnderWay = true
      state.stream = stream
      return true
    }
  }

  /// Lets the caller go on without the answer, which is kept for later.
  ///
  /// - Returns: false if the request is not under way, or its caller was detached before.
  func detachCaller() -> Bool {
    let detached = state.withLock { state -> (caller: Caller?, stream: StreamReference?)? in
      guard state.isUnderWay, !state.isDetached, state.ending == nil else { return nil }
      state.isDetached = true
      defer { state.caller = nil }
      return (state.caller, state.stream)
    }
    guard let detached else { return false }
    detached.stream?.connection.probe()
    detached.caller?.resume(returning: .underWay { await self.lateEnding() })
    return true
  }

  private func lateEnding() async -> Ending {
    await withContinuation { continuation in
      let ending = state.withLock { state in
        if state.ending == nil { state.successor = continuation }
        return state.ending
      }
      if let ending { continuation.resume(returning: ending) }
    }
  }

  /// Ends the request, unless it has ended.
  ///
  /// - Returns: the stream to reset, if there is one.
  @discardableResult
  func finish(_ ending: Ending) -> StreamReference? {
    let ended = state.withLock {
      state -> (
        caller: Caller?, successor: Continuation<Ending, Never>?, stream: StreamReference?
      )? in
      guard state.ending == nil else { return nil }
      state.ending = ending
      defer {
        state.caller = nil
        state.successor = nil
        state.stream = nil
      }
      return (state.caller, state.successor, state.stream)
    }
    ended?.caller?.resume(returning: .ended(ending))
    ended?.successor?.resume(returning: ending)
    return ended?.stream
  }

  /// The peer certainly did not process the request.
  ///
  /// - Returns: whether to send it again.
  func refused(limit: Int) -> Bool {
    state.withLock { state in
      state.isUnderWay = false
      state.stream = nil
      state.refusals += 1
      return state.ending == nil && state.refusals <= limit
    }
  }
}
