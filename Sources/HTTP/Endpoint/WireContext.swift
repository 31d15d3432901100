package import Hummingbird
package import Logging
import NIOCore

/// What a request carries along besides itself.
package struct WireContext: RequestContext {
  /// Hummingbird's own part.
  package var coreContext: CoreRequestContextStorage
  /// The name of the request in the answer's `X-Request-Id` and in every log line.
  package internal(set) var requestID: String
  /// The client's address: the peer's, or what a trusted proxy says of it.
  package internal(set) var clientAddress: ClientAddress
  /// What the log is to tell of it.
  package let notes = RequestNotes()
  /// When its head had come.
  package let received = ContinuousClock.now
  /// The connection it came on; nil for a call within the process, as tests make them.
  let channel: (any Channel)?

  /// The context of a request from `source`.
  package init(source: ApplicationRequestContextSource) {
    coreContext = .init(source: source)
    requestID = ""
    clientAddress = ClientAddress(source.channel.remoteAddress)
    channel = source.channel
  }

  /// The context of a call within the process.
  package init(inProcess logger: Logger) {
    coreContext = .init(source: InProcess(logger: logger))
    requestID = ""
    clientAddress = .loopback
    channel = nil
  }

  private struct InProcess: RequestContextSource {
    let logger: Logger
  }
}
