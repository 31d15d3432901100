package import Foundation
package import HTTPTypes
package import Hummingbird
package import Logging
import NIOCore
import Synchronization

/// Gives each request an id, finds the client's address behind trusted proxies, and answers every error with
/// Zulip's envelope: JSON with the id, without details that do not concern the caller.
package struct EnvelopeMiddleware: RouterMiddleware {
  package typealias Context = WireContext

  private let trustedProxies: [ClientAddress.Network]
  private let unnamedProxies: UnnamedProxies?
  private let bodies: BodyBudget?

  /// - Parameters:
  ///   - trustedProxies: proxies whose `X-Forwarded-For` is believed.
  ///   - unnamedProxies: logs other peers that send the header.
  ///   - bodies: limits the memory for bodies.
  package init(
    trustedProxies: [ClientAddress.Network] = [], unnamedProxies: UnnamedProxies? = nil,
    bodies: BodyBudget? = nil
  ) {
    self.trustedProxies = trustedProxies
    self.unnamedProxies = unnamedProxies
    self.bodies = bodies
  }

  package func handle(
    _ request: Request, context: WireContext, next: (Request, WireContext) async throws -> Response
  ) async throws -> Response {
    var context = context
    context.requestID = request.headers.value(.xRequestID).flatMap(Self.sane) ?? Self.newRequestID()
    context.logger[metadataKey: "request_id"] = .string(context.requestID)
    let (peer, forwardedFor) = (context.clientAddress, request.headers.value(.xForwardedFor))
    context.clientAddress = Self.client(peer: peer, forwardedFor: forwardedFor, trusted: trustedProxies)
    context.notes.note(client: context.clientAddress)
    if forwardedFor != nil, let unnamedProxies, !trustedProxies.contains(where: { $0.contains(peer) }) {
      unnamedProxies.report(peer, to: context.logger)
    }
    var request = request
    let charge = meter(&request, context)
    defer { charge?.release() }
    var response: Response
    do {
      response = try await next(request, context)
    } catch {
      let error = APIError(error, logger: context.logger)
      context.notes.note(error: error.code)
      response = error.response
    }
    response.headers[.xRequestID] = context.requestID
    return response
  }

  /// Charges the body to the budget while it is read and held.
  private func meter(_ request: inout Request, _ context: WireContext) -> BodyCharge? {
    guard let bodies else { return nil }
    let framing = BodyFraming(request.head)
    guard framing.mayBeThere else { return nil }
    let charge = BodyCharge(bodies, source: context.clientAddress.source, channel: context.channel)
    request.body = RequestBody(
      asyncSequence: MeteredBody(
        body: request.body, charge: charge, declared: framing.length ?? 0,
        channel: framing.isToBeAskedFor ? context.channel : nil))
    return charge
  }

  /// The caller's own id, if it is acceptable.
  static func sane(_ id: String) -> String? { id.isName(1...128, with: "._-") ? id : nil }

  /// 16 hexadecimal digits.
  private static func newRequestID() -> String { String(UInt64.random(in: 1 << 60 ... .max), radix: 16) }

  /// Follows `X-Forwarded-For` from the nearest proxy outward for as long as each is trusted.
  static func client(
    peer: ClientAddress, forwardedFor: String?, trusted: [ClientAddress.Network]
  ) -> ClientAddress {
    func isTrusted(_ address: ClientAddress) -> Bool { trusted.contains { $0.contains(address) } }
    guard let forwardedFor, isTrusted(peer) else { return peer }
    var client = peer
    for hop in forwardedFor.utf8.split(separator: UInt8(ascii: ",")).reversed() {
      guard hop.count <= 64, let hop = ClientAddress(String(Substring(hop)).strippingWhitespace()) else {
        break
      }
      client = hop
      if !isTrusted(hop) { break }
    }
    return client
  }
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
  }

  private let notes = Mutex(Notes())

  /// Notes the client's address, once it is clear which proxies are trusted.
  package func note(client: ClientAddress) { notes.withLock { $0.client = client } }

  /// Notes the hostname of the authenticated chat server.
  package func note(server: String) { notes.withLock { $0.server = server } }

  /// Whether the caller is an authenticated chat server.
  package var isFromServer: Bool { notes.withLock { $0.server != nil } }

  package func note(realm: UUID?) { notes.withLock { $0.realm = realm } }

  func note(error: String) { notes.withLock { $0.error = error } }

  package var metadata: Logger.Metadata {
    let notes = notes.withLock { $0 }
    var metadata: Logger.Metadata = [:]
    metadata["client"] = notes.client.map { "\($0)" }
    metadata["server"] = notes.server.map { "\($0)" }
    metadata["realm"] = notes.realm.map { "\($0.uuidString.lowercased())" }
    metadata["error"] = notes.error.map { "\($0)" }
    return metadata
  }
}

/// Logs addresses that send `X-Forwarded-For` without being trusted proxies. Usually that is the operator's
/// own reverse proxy, and all its clients share one limit. Logs each address once an hour and a limited
/// number in all, since strangers send the header, too.
package final class UnnamedProxies: Sendable {
  static let maximum = 20
  static let hour = Duration.seconds(3600)

  private let now: @Sendable () -> ContinuousClock.Instant
  private let told = Mutex<(until: ContinuousClock.Instant?, addresses: Set<ClientAddress>)>((nil, []))

  package init(now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
    self.now = now
  }

  func report(_ peer: ClientAddress, to logger: Logger) {
    let now = now()
    let isNew = told.withLock { told in
      if told.until.map({ $0 <= now }) ?? true { told = (now + Self.hour, []) }
      return told.addresses.count < Self.maximum && told.addresses.insert(peer.source).inserted
    }
    guard isNew else { return }
    logger.warning(
      "X-Forwarded-For is not believed: all clients behind this address count as one",
      metadata: [
        "address": "\(peer)",
        "advice":
          "if it is your own proxy, name it in http.trusted_proxies; if not, a stranger has sent the header",
      ])
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
