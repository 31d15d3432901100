import NIOCore
import Synchronization

/// One request and whoever waits for its answer. It ends once: by an answer, a failure, the
/// deadline or the caller's cancellation, whichever comes first.
final class Exchange: Sendable {
  typealias Ending = Result<ProviderResponse, TransportFailure>

  /// The stream that a request is under way on.
  struct Place {
    let connection: HTTP2Connection
    let stream: HTTP2Connection.StreamID
  }

  private struct State {
    var continuation: CheckedContinuation<Ending, Never>?
    var ending: Ending?
    var place: Place?
    var refusals = 0
  }

  let request: ProviderRequest
  let deadline: NIODeadline
  private let state = Mutex(State())

  init(_ request: ProviderRequest, deadline: NIODeadline) {
    self.request = request
    self.deadline = deadline
  }

  var isOver: Bool { state.withLock { $0.ending != nil } }

  /// Who waits. Answers at once, and returns false, if it is over already.
  func attach(_ continuation: CheckedContinuation<Ending, Never>) -> Bool {
    let ending = state.withLock { state in
      if state.ending == nil { state.continuation = continuation }
      return state.ending
    }
    guard let ending else { return true }
    continuation.resume(returning: ending)
    return false
  }

  /// The request goes out on this stream; false if nobody waits any longer.
  func begin(at place: Place) -> Bool {
    state.withLock { state in
      guard state.ending == nil else { return false }
      state.place = place
      return true
    }
  }

  /// Ends it unless it has ended. Returns the stream that is to be reset, if there is one.
  @discardableResult
  func end(_ ending: Ending) -> Place? {
    let (continuation, place) = state.withLock { state -> (CheckedContinuation<Ending, Never>?, Place?) in
      guard state.ending == nil else { return (nil, nil) }
      state.ending = ending
      defer { (state.continuation, state.place) = (nil, nil) }
      return (state.continuation, state.place)
    }
    continuation?.resume(returning: ending)
    return place
  }

  /// The peer certainly did not process it. Returns whether to try once more.
  func refused(limit: Int) -> Bool {
    state.withLock { state in
      state.place = nil
      state.refusals += 1
      return state.ending == nil && state.refusals <= limit
    }
  }
}
