package import NIOCore
package import NIOHPACK
import Synchronization

/// A request as it goes out, but for what the connection adds: `:method` is always POST.
package struct ProviderRequest: Sendable {
  /// Pseudo headers first, everything in lower case.
  package let headers: HPACKHeaders
  /// Makes the body, when the request goes out: a host that is not there is not worth encrypting for.
  package let body: @Sendable () -> ByteBuffer
  /// Who answers for it: connections are dealt out between owners.
  var owner = Owner.nobody

  init(headers: HPACKHeaders, body: @escaping @autoclosure @Sendable () -> ByteBuffer) {
    self.headers = headers
    self.body = body
  }
}

/// An answer as it came in.
package struct ProviderResponse: Sendable {
  package var status: Int
  package var headers: HPACKHeaders
  /// What came of the body, at most ``maximumBody`` bytes; empty where there is none.
  package var body: ByteBuffer
  /// The connection it came over, for ``Transport/retire(_:)``.
  var connection: ConnectionID?

  /// Longer bodies are cut: no provider sends more than a few hundred bytes. Less than a stream's
  /// window (65,535 bytes), so that a longer one is noticed rather than waited for.
  static let maximumBody = 32_768

  package init(status: Int, headers: HPACKHeaders, body: ByteBuffer, connection: ConnectionID? = nil) {
    (self.status, self.headers, self.body, self.connection) = (status, headers, body, connection)
  }
}

/// Names a connection within its pool.
package struct ConnectionID: Hashable, Sendable {
  let number: Int
}

/// Carries requests to one origin.
package protocol Transport: AnyObject, Sendable {
  /// Sends the request. Returns by the deadline, a few milliseconds late at most, or when the task is cancelled:
  /// a request that no connection has taken is then withdrawn, another goes on.
  func send(_ request: ProviderRequest, deadline: NIODeadline) async -> Awaited<
    Result<ProviderResponse, TransportFailure>
  >
  /// Uses the connection for no more requests; those on it go on.
  func retire(_ connection: ConnectionID)
  /// Uses no connection any more that was begun before, or together with, this one (nil: none that there is);
  /// what is on them goes on. The next request goes over a fresh one.
  func renew(through newest: ConnectionID?)
  /// Takes no more requests and returns when those under way have ended, or are given up at the deadline (nil:
  /// never), and all is closed.
  func shutdown(deadline: NIODeadline?) async
}

/// An answer that has come by a deadline, or is still to come.
///
/// What has been handed to a provider cannot be taken back, and sending it again would show it twice. So the
/// deadline ends the waiting, not the request: it goes on, and ends when the answer comes or
/// ``PushProviders/answerTimeout`` has passed.
package enum Awaited<Answer: Sendable>: Sendable {
  case ended(Answer)
  /// It is at the provider. The caller has to await the answer, once: it also counts for the route's health.
  case underWay(_ answer: @Sendable () async -> Answer)
}

/// One request and whoever waits for its answer. It ends once: by an answer, a failure, or because
/// time is up. Whoever waits may leave before that, and come back for the ending.
final class PendingRequest: Sendable {
  typealias Ending = Result<ProviderResponse, TransportFailure>
  typealias Continuation = CheckedContinuation<Awaited<Ending>, Never>

  /// The stream that a request is under way on.
  struct Place {
    let connection: HTTP2Connection
    let stream: HTTP2StreamID
  }

  private struct State {
    /// Who waits until the deadline.
    var caller: Continuation?
    /// Who waits for a late answer.
    var successor: CheckedContinuation<Ending, Never>?
    var ending: Ending?
    /// Handed over: it may be at the peer.
    var isUnderWay = false
    var isLeft = false
    var place: Place?
    var refusals = 0
  }

  let request: ProviderRequest
  private let state = Mutex(State())

  init(_ request: ProviderRequest) {
    self.request = request
  }

  var isOver: Bool { state.withLock { $0.ending != nil } }
  var isUnderWay: Bool { state.withLock { $0.isUnderWay } }

  /// Who waits. Answers at once, and returns false, if it is over already.
  func attach(_ continuation: Continuation) -> Bool {
    let ending = state.withLock { state in
      if state.ending == nil { state.caller = continuation }
      return state.ending
    }
    guard let ending else { return true }
    continuation.resume(returning: .ended(ending))
    return false
  }

  /// The request goes out, on this stream if it has one; false if nobody waits any longer.
  func begin(at place: Place?) -> Bool {
    state.withLock { state in
      guard state.ending == nil else { return false }
      state.isUnderWay = true
      state.place = place
      return true
    }
  }

  /// Who waits goes on without the answer, which is kept for when it comes; false if the request is not under
  /// way, or has been left before.
  func leave() -> Bool {
    let left = state.withLock { state -> (caller: Continuation?, place: Place?)? in
      guard state.isUnderWay, !state.isLeft, state.ending == nil else { return nil }
      state.isLeft = true
      defer { state.caller = nil }
      return (state.caller, state.place)
    }
    guard let left else { return false }
    left.place?.connection.probe()
    left.caller?.resume(returning: .underWay { await self.lateEnding() })
    return true
  }

  private func lateEnding() async -> Ending {
    await withCheckedContinuation { continuation in
      let ending = state.withLock { state in
        if state.ending == nil { state.successor = continuation }
        return state.ending
      }
      if let ending { continuation.resume(returning: ending) }
    }
  }

  /// Ends it unless it has ended. Returns the stream that is to be reset, if there is one.
  @discardableResult
  func end(_ ending: Ending) -> Place? {
    let ended = state.withLock {
      state -> (caller: Continuation?, successor: CheckedContinuation<Ending, Never>?, place: Place?)? in
      guard state.ending == nil else { return nil }
      state.ending = ending
      defer { (state.caller, state.successor, state.place) = (nil, nil, nil) }
      return (state.caller, state.successor, state.place)
    }
    ended?.caller?.resume(returning: .ended(ending))
    ended?.successor?.resume(returning: ending)
    return ended?.place
  }

  /// The peer certainly did not process it. Returns whether to try once more.
  func refused(limit: Int) -> Bool {
    state.withLock { state in
      state.isUnderWay = false
      state.place = nil
      state.refusals += 1
      return state.ending == nil && state.refusals <= limit
    }
  }
}
