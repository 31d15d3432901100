import NIOCore
import Synchronization

/// One request and whoever waits for its answer. It ends once: by an answer, a failure, or because
/// time is up. Whoever waits may leave before that, and come back for the ending.
final class PendingRequest: Sendable {
  private typealias Ending = Result<ProviderResponse, TransportFailure>
  typealias Continuation = CheckedContinuation<
    Awaited<Result<ProviderResponse, TransportFailure>>, Never
  >
  private typealias Successor = CheckedContinuation<Ending, Never>

  /// The stream that a request is under way on.
  struct Place {
    let connection: HTTP2Connection
    let stream: HTTP2StreamID
  }

  private struct State {
    /// Who waits until the deadline.
    var caller: Continuation?
    /// Who waits for a late answer.
    var successor: Successor?
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
  func end(_ ending: Result<ProviderResponse, TransportFailure>) -> Place? {
    let ended = state.withLock { state -> (caller: Continuation?, successor: Successor?, place: Place?)? in
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
