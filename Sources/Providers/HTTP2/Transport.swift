package import NIOCore
package import NIOHPACK

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

  /// An answer by its parts.
  package init(status: Int, headers: HPACKHeaders, body: ByteBuffer) {
    self.init(status: status, headers: headers, body: body, connection: nil)
  }

  init(status: Int, headers: HPACKHeaders, body: ByteBuffer, connection: ConnectionID?) {
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
/// ``PushProviders/answerPatience`` has passed.
package enum Awaited<Answer: Sendable>: Sendable {
  case ended(Answer)
  /// It is at the provider. The caller has to await the answer, once: it also counts for the route's health.
  case underWay(_ answer: @Sendable () async -> Answer)
}
