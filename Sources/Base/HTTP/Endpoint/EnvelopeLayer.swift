package import Basics
package import Foundation
package import HTTPTypes
package import Hummingbird
package import Logging
import NIOCore
import Synchronization

/// Gives each request an id, finds the client's address behind trusted proxies, and answers every error in
/// JSON, without details that do not concern the caller. The answer has the id.
package struct EnvelopeLayer: Layer {
  private let trustedProxies: [ClientAddress.Network]
  private let forwarding: ForwardingFaults?
  private let bodies: BodyBudget?

  /// - Parameters:
  ///   - trustedProxies: proxies whose `X-Forwarded-For` is believed.
  ///   - forwarding: reports where the header is not believed or cannot be read.
  ///   - bodies: limits the memory for bodies.
  package init(
    trustedProxies: [ClientAddress.Network] = [], forwarding: ForwardingFaults? = nil,
    bodies: BodyBudget? = nil
  ) {
    self.trustedProxies = trustedProxies
    self.forwarding = forwarding
    self.bodies = bodies
  }

  package func answer(
    _ request: Request, _ context: WireContext, _ next: Routes.Handler
  ) async throws -> Response {
    var context = context
    context.requestID = request.headers.value(.xRequestID).flatMap(Self.acceptable) ?? Self.newRequestID()
    context.logger[metadataKey: "request_id"] = .string(context.requestID)
    if let list = request.headers.value(.xForwardedFor) {
      let path = ForwardedFor(list, from: context.clientAddress, trusted: trustedProxies)
      context.clientAddress = path.client
      if let fault = path.fault { forwarding?.report(fault, of: path.proxy, to: context.logger) }
    }
    context.notes.record(client: context.clientAddress)
    var request = request
    let framing = context.framing ?? BodyFraming(request.head)
    let charge = meter(&request, framing, context)
    defer { charge?.release() }
    var response: Response
    do {
      if framing.headBytes > Self.shortHead { try charge?.add(framing.headBytes, isAll: !framing.mayBeThere) }
      if !framing.isLong, let length = framing.length, length > 0 { charge?.take(length, of: &request) }
      response = try await LongRead.$source.withValue(context.clientAddress.source) {
        guard framing.isLong else { return try await next(request, context) }
        return try await withTaskExecutorPreference(LongWorkExecutor.shared) {
          try await next(request, context)
        }
      }
    } catch {
      let error = APIError(error, logger: context.logger)
      context.notes.record(error: error.code)
      response = error.response
    }
    response.headers[.xRequestID] = context.requestID
    return response
  }

  /// Bytes of a head that is not counted.
  private static let shortHead = 2 << 10

  /// Charges a long body to the budget while it is read and held.
  ///
  /// - Returns: the charge, to which a short body and a long head are added; nil if there is nothing to charge.
  private func meter(
    _ request: inout Request, _ framing: BodyFraming, _ context: WireContext
  ) -> BodyCharge? {
    guard let bodies, framing.mayBeThere || framing.headBytes > Self.shortHead else { return nil }
    let charge = BodyCharge(bodies, source: context.clientAddress.source, channel: context.channel)
    guard framing.isLong else { return charge }
    request.body = RequestBody(
      asyncSequence: MeteredBody(
        body: request.body, charge: charge, declared: framing.length ?? 0, channel: context.channel))
    return charge
  }

  /// The caller's own id, if it is acceptable.
  static func acceptable(_ id: String) -> String? { id.isName(1...128, with: "._-") ? id : nil }

  /// 16 hexadecimal digits.
  private static func newRequestID() -> String { String(UInt64.random(in: 1 << 60 ... .max), radix: 16) }
}

extension HTTPField.Name {
  package static let xRequestID = HTTPField.Name("X-Request-Id")!  // a valid token
  package static let xForwardedFor = HTTPField.Name("X-Forwarded-For")!  // a valid token
}

/// What becomes known about a request while it is answered, for its log line.
package final class RequestNotes: Sendable {
  private struct Notes {
    var client: ClientAddress?
    var server: String?
    var realm: UUID?
    var error: String?
    var additions = Additions()
  }

  private let notes = Mutex(Notes())

  package init() {}

  /// Records the client's address, once it is clear which proxies are trusted.
  package func record(client: ClientAddress) { notes.withLock { $0.client = client } }

  /// Records the hostname of the authenticated chat server.
  package func record(server: String) { notes.withLock { $0.server = server } }

  /// Whether the caller is an authenticated chat server.
  package var isFromServer: Bool { notes.withLock { $0.server != nil } }

  package func record(realm: UUID?) { notes.withLock { $0.realm = realm } }

  /// Records what a newer sender may have added.
  package func record(_ additions: Additions) {
    if !additions.counts.isEmpty { notes.withLock { $0.additions.add(additions) } }
  }

  package var additions: Additions { notes.withLock(\.additions) }

  func record(error: String) { notes.withLock { $0.error = error } }

  package var metadata: Logger.Metadata {
    let notes = notes.withLock { $0 }
    var metadata: Logger.Metadata = [:]
    metadata["client"] = notes.client.map { "\($0)" }
    metadata["server"] = notes.server.map { "\($0)" }
    metadata["realm"] = notes.realm.map { "\($0.hyphenated)" }
    metadata["error"] = notes.error.map { "\($0)" }
    return metadata
  }
}

package struct WireContext: RequestContext {
  package var coreContext: CoreRequestContextStorage
  /// The id in the answer's `X-Request-Id` and in every log line.
  package internal(set) var requestID: String
  /// The peer's address, or the one that a trusted proxy reports.
  package internal(set) var clientAddress: ClientAddress
  package let notes = RequestNotes()
  /// When the head of the request had arrived.
  package let received = ContinuousClock.now
  /// What the head says of the body; nil for a call within the process.
  var framing: BodyFraming?
  /// The request's connection; nil for a call within the process, as in tests.
  let channel: (any Channel)?

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
