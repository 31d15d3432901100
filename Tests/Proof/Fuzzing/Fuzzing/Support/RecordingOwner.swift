import NIOCore
import Synchronization

@testable import HTTPClient
@testable import Providers

/// Takes the place of a connection's pool, and records how its requests end.
final class RecordingOwner: HTTP2ConnectionOwner {
  private struct State {
    var endings: [ObjectIdentifier: Int] = [:]
    var responses: [ProviderResponse] = []
    var closed = 0
  }

  private let state = Mutex(State())

  var responses: [ProviderResponse] { state.withLock { $0.responses } }

  func opened(_ connection: HTTP2Connection, streams: Int) {}
  func waits(_ id: ConnectionID, orElse failure: ConnectionFailure) {}
  func limitChanged(_ id: ConnectionID, streams: Int) {}
  func draining(_ id: ConnectionID) {}
  func suspected(_ id: ConnectionID) {}
  func alive(_ id: ConnectionID) {}

  func finished(
    _ pending: PendingRequest, on id: ConnectionID, _ ending: Result<ProviderResponse, TransportFailure>
  ) {
    state.withLock { state in
      state.endings[ObjectIdentifier(pending), default: 0] += 1
      if case .success(let response) = ending { state.responses.append(response) }
    }
  }

  func unprocessed(_ pending: PendingRequest, on id: ConnectionID) {
    state.withLock { $0.endings[ObjectIdentifier(pending), default: 0] += 1 }
  }

  func closed(_ id: ConnectionID, wasUp: Bool, failure: TransportFailure) {
    state.withLock { $0.closed += 1 }
  }

  /// Checks that each request and the connection ended exactly once, and that no answer exceeds its limit.
  func checkEndings(of requests: Int) throws {
    let state = state.withLock { $0 }
    try check(state.endings.values.allSatisfy { $0 == 1 }, "a request ends once")
    try check(state.endings.count == requests, "every request ends")
    try check(state.closed == 1, "a connection is said to be closed once")
    for response in state.responses {
      try check(
        response.body.readableBytes <= ProviderResponse.maximumBody, "a body is cut where it is too long")
      let now = APNsAnswerTarget.now
      for outcome in [
        Outcome(apns: response, now: { now }), Outcome(fcm: response, now: { now }),
        Outcome(webPush: response, now: { now }),
      ] { try outcome.checkTimes() }
    }
  }
}
