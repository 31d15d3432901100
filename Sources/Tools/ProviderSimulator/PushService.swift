import Foundation
import HTTP
import NIOCore
import NIOHPACK
import Providers

/// A provider's answer to a push that it refuses.
struct Refusal: Error {
  let status: Int
  /// APNs' reason, FCM's error code or the push service's, for the record.
  let reason: String
  let body: JSON
}

/// The usual reason and message of a status, for a rule or a fault without a reason. `canonical` is its
/// google.rpc.Code.
struct Usual {
  let apns: Reason
  let fcm: Reason
  let canonical: String
  let webPush: String

  init(_ status: Int) {
    (apns, fcm, canonical, webPush) =
      switch status {
      case 300..<400: (.badDeviceToken, .fcmInternal, "INTERNAL", "Redirect")
      case 400: (.badDeviceToken, .fcmInvalidArgument, "INVALID_ARGUMENT", "BadRequest")
      case 401: (.badDeviceToken, .fcmUnauthenticated, "UNAUTHENTICATED", "Unauthorized")
      case 403: (.forbidden, .fcmSenderIDMismatch, "PERMISSION_DENIED", "Forbidden")
      case 404: (.badPath, .fcmUnregistered, "NOT_FOUND", "NotFound")
      case 405: (.methodNotAllowed, .fcmInternal, "INTERNAL", "ServerError")
      case 410: (.unregistered, .fcmInternal, "INTERNAL", "Gone")
      case 413: (.payloadTooLarge, .fcmInternal, "INTERNAL", "PayloadTooLarge")
      case 429: (.tooManyRequests, .fcmQuotaExceeded, "RESOURCE_EXHAUSTED", "TooManyRequests")
      case 503: (.serviceUnavailable, .fcmUnavailable, "UNAVAILABLE", "ServerError")
      case 504: (.internalServerError, .fcmInternal, "DEADLINE_EXCEEDED", "ServerError")
      case 500...: (.internalServerError, .fcmInternal, "INTERNAL", "ServerError")
      default: (.badDeviceToken, .fcmInternal, "INTERNAL", "ServerError")
      }
  }
}

extension HPACKHeaders {
  /// The value of a field that may be there once.
  func only(_ name: String, _ refusal: @autoclosure () -> Refusal) throws(Refusal) -> String? {
    let values = self[name]
    guard values.count <= 1 else { throw refusal() }
    return values.first
  }
}

/// The result of a service's check of a push.
struct PushCheck {
  var token = ""
  /// Of APNs, whose key has signed the provider token.
  var environment: APNsCredential.Environment?
  /// The answer's `apns-id`, FCM's message name, or the push service's message id.
  var id = ""
  /// The answer, if the push is taken.
  var reply = Reply(status: 200)
  /// Fields of each answer, also of a refusal.
  var headers: [(name: String, value: String)] = []
  /// Whether it is delivered; FCM can be asked only to check.
  var isDelivered = true
  /// Gets the sequence number of the delivery before any reader sees it.
  var kept: (Int) -> Void = { _ in }
}

/// A provider's side of pushes: it checks them in its own way; rules and faults work for all alike.
protocol PushService: Responder {
  var simulation: SimulatedProviders { get }
  var provider: Delivery.Provider { get }
  /// The refusal that a rule or a fault asks for; without a reason the usual one of its status.
  func refusal(_ status: Int, reason: String?, timestamp: Int?) -> Refusal
}

extension PushService {
  /// - Parameters:
  ///   - target: APNs' topic, FCM's project, or the origin of the push service.
  ///   - check: throws what is wrong with the push.
  func answer(
    _ request: Request, to target: String, on connection: Connection,
    check: (inout PushCheck, Date) throws(Refusal) -> Void
  ) -> Action {
    simulation.countOnce(connection)
    let fate = simulation.fate(of: provider)
    let faults = fate.faults
    if let action = fate.action { return action }
    let closes = faults.goAwayEvery.map { connection.requests.isMultiple(of: $0) } ?? false
    if closes { connection.goAway() }

    let now = simulation.configuration.now()
    var delay = faults.latencyMilliseconds
    var push = PushCheck()
    var refusal: Refusal?
    var headers: [(name: String, value: String)] = []
    do throws(Refusal) {
      try check(&push, now)
      if let rule = simulation.takeRule(for: push.token, in: push.environment) {
        delay += rule.delayMilliseconds
        headers = rule.headers
        guard (200..<300).contains(rule.status) else {
          throw self.refusal(rule.status, reason: rule.reason, timestamp: rule.timestamp(at: now))
        }
        // 200 is how a rule says that all is well, also of a service whose success is 201.
        if rule.status != 200 { push.reply.status = rule.status }
      }
    } catch {
      refusal = error
    }
    if let status = fate.status {
      refusal = self.refusal(status, reason: faults.reason, timestamp: nil)
      headers = faults.headers
    }
    if push.isDelivered || refusal != nil {
      simulation.record(
        Delivery(
          provider: provider, token: push.token, target: target, environment: push.environment,
          headers: request.headers.kept,
          receivedAt: now, status: refusal?.status ?? push.reply.status, reason: refusal?.reason,
          // Only APNs gives refused ones an id.
          id: refusal == nil || provider == .apns ? push.id : "", body: request.body)
      ) { sequence in
        if refusal == nil { push.kept(sequence) }
      }
    }
    if refusal == nil, fate.hits(faults.loseAnswerEvery) { return .dropConnection }
    var reply =
      refusal.map { faults.html ? .html($0.status) : .json($0.status, $0.body) } ?? push.reply
    reply.headers += push.headers + headers
    reply.isEndless = faults.endless
    if closes, !connection.isHTTP2 { reply.headers.append(("connection", "close")) }
    return .answer(reply, after: .milliseconds(Int64(delay)))
  }
}
