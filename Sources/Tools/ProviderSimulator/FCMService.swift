import Foundation
import HTTP
import NIOCore
import NIOHPACK
import Providers

/// The services on the FCM port: `messages:send`, the OAuth endpoint and the control calls.
struct FCMService: PushService {
  let simulation: SimulatedProviders
  let provider = Delivery.Provider.fcm

  func respond(to request: Request, on connection: Connection) -> Action {
    let path = request.pathOnly
    if path.hasPrefix("/_control") { return ControlService(simulation: simulation).respond(to: request) }
    if path == "/token" { return token(request, on: connection) }
    // Google's front end answers unknown paths in HTML.
    guard let project = Self.project(in: path) else { return .answer(.html(404)) }
    guard request.method == "POST" else { return .answer(.html(405)) }
    return send(request, project: project, on: connection)
  }

  /// `/v1/projects/{project}/messages:send`.
  private static func project(in path: Substring) -> String? {
    let parts = path.split(separator: "/", omittingEmptySubsequences: false)
    guard parts.count == 5, parts[1] == "v1", parts[2] == "projects", !parts[3].isEmpty,
      parts[4] == "messages:send"
    else { return nil }
    return String(parts[3])
  }

  private func token(_ request: Request, on connection: Connection) -> Action {
    let faults = simulation.faults
    if faults.fcm.outage { return .dropConnection }
    let delay = TimeAmount.milliseconds(Int64(faults.oauthLatencyMilliseconds))
    if let status = faults.oauthStatus {
      let failure = AccessTokens.Failure(
        error: status == 400 ? Reason.invalidGrant.rawValue : "internal_failure", description: "Simulated.")
      return .answer(faults.fcm.html ? .html(status) : .json(status, failure.json), after: delay)
    }
    guard request.method == "POST" else { return .answer(.html(405)) }
    do throws(AccessTokens.Failure) {
      let body = try simulation.accessTokens.issue(
        form: request.form, port: connection.channel.localAddress?.port ?? 0,
        now: simulation.configuration.now())
      simulation.count { $0.oauthTokens += 1 }
      return .answer(.json(200, body), after: delay)
    } catch {
      return .answer(.json(400, error.json), after: delay)
    }
  }

  private func send(_ request: Request, project: String, on connection: Connection) -> Action {
    answer(request, to: project, on: connection) { push, now throws(Refusal) in
      guard simulation.accessTokens.accepts(request.headers.first(name: "authorization"), now: now) else {
        throw .fcm(
          401,
          "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other "
            + "valid authentication credential.")
      }
      guard project == simulation.credentials.projectID else {
        // Not a dead token: no FcmError.
        throw .fcm(404, "Requested entity was not found.")
      }
      let message = try FCMRequest(request.body)
      push.token = message.recipient
      push.isDelivered = !message.validateOnly
      // Looks like Google's: `0:microseconds%hex`.
      let number =
        "0:\(Int(now.timeIntervalSince1970 * 1_000_000))%"
        + String(UInt64.random(in: 0 ... .max), radix: 16)
      push.id = "projects/\(project)/messages/\(message.validateOnly ? "fake_message_id" : number)"
      push.reply = .json(200, ["name": .string(push.id)])
    }
  }

  func refusal(_ status: Int, reason: String?, timestamp: Int?) -> Refusal {
    let reason = reason ?? Usual(status).fcm.rawValue
    if status == 400, reason == Reason.fcmInvalidArgument.rawValue { return .invalidFCMToken }
    // These errors come from Google's front end, which has no FCM error codes.
    let isFrontEnds = [.fcmUnauthenticated, .fcmPermissionDenied, .fcmNotFound].map(\Reason.rawValue)
      .contains(reason)
    return .fcm(
      status, status == 404 ? "Requested entity was not found." : "Simulated: \(reason).",
      errorCode: isFrontEnds ? nil : reason)
  }
}

extension Refusal {
  static let invalidFCMToken = fcm(
    400, "The registration token is not a valid FCM registration token",
    errorCode: Reason.fcmInvalidArgument.rawValue)

  /// An error of Google's in the shape of `google.rpc.Status` (`Documentation/Providers.md`, FCM).
  /// - Parameters:
  ///   - errorCode: of `google.firebase.fcm.v1.FcmError`, where there is one.
  ///   - field: of `google.rpc.BadRequest`, where the message is wrong at one.
  static func fcm(_ status: Int, _ message: String, errorCode: String? = nil, field: String? = nil)
    -> Refusal
  {
    let canonical = Usual(status).canonical
    var error: JSON.Object = [
      "code": .integer(Int64(status)), "message": .string(message), "status": .string(canonical),
    ]
    if let errorCode {
      error["details"] = [
        ["@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": .string(errorCode)]
      ]
    }
    if let field {
      error["details"] = [
        [
          "@type": "type.googleapis.com/google.rpc.BadRequest",
          "fieldViolations": [["field": .string(field), "description": .string(message)]],
        ]
      ]
    }
    return Refusal(status: status, reason: errorCode ?? canonical, body: ["error": .object(error)])
  }
}
