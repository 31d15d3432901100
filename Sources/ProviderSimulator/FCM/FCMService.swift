import Foundation
import NIOCore
import NIOHTTP1

/// A whole request to the FCM port.
struct FCMPortRequest: Sendable {
  let head: HTTPRequestHead
  let body: Data

  /// The path, without the query.
  var path: Substring { head.uri.prefix { $0 != "?" } }
}

/// FCM's rules: what becomes of a message or of a request for an access token.
struct FCMService: Sendable {
  let project: String
  let tokens: GoogleTokens
  let plan: FaultPlan
  let ledger: Ledger

  /// The OAuth endpoint.
  func oauth(_ request: FCMPortRequest, port: Int) -> Answer {
    let faults = plan.faults
    var answer: Answer
    if let status = faults.oauthStatus {
      answer = status < 500
        ? .json(status, ["error": "invalid_grant", "error_description": "Refused by a fault."])
        : .html(status)
    } else if request.head.method != .POST {
      answer = .json(405, ["error": "method_not_allowed"])
    } else {
      let now = Int(Date().timeIntervalSince1970)
      var audiences: Set = ["https://oauth2.googleapis.com/token"]
      for scheme in ["http", "https"] {
        for host in ["127.0.0.1", "localhost", "[::1]"] { audiences.insert("\(scheme)://\(host):\(port)/token") }
      }
      if let fault = tokens.fault(in: Self.form(request.body), audiences: audiences, now: now) {
        answer = .json(400, ["error": "invalid_grant", "error_description": fault])
      } else {
        ledger.count { $0.accessTokens += 1 }
        answer = .json(
          200, ["access_token": tokens.issue(now: now), "expires_in": tokens.lifetime, "token_type": "Bearer"])
      }
    }
    answer.delayMilliseconds = faults.oauthLatencyMilliseconds
    return answer
  }

  /// `messages:send`.
  func send(_ request: FCMPortRequest, fate: FaultPlan.Fate) -> Answer {
    var answer = judge(request, fate)
    answer.delayMilliseconds += fate.latencyMilliseconds
    if answer.status != 200 { ledger.count { $0.refused += 1 } }
    return answer
  }

  private func judge(_ request: FCMPortRequest, _ fate: FaultPlan.Fate) -> Answer {
    let authorization = request.head.headers.first(name: "authorization") ?? ""
    guard authorization.prefix(7).lowercased() == "bearer ",
      tokens.isGood(authorization.dropFirst(7), now: Int(Date().timeIntervalSince1970))
    else { return .google(401, "UNAUTHENTICATED", "Request had invalid authentication credentials.") }
    if let failure = fate.failure {
      var answer: Answer = failure.isHTML ? .html(failure.status) : .fcm(failure.status, reason: failure.reason)
      if let retryAfter = failure.retryAfter { answer.headers.append(("retry-after", retryAfter)) }
      return answer
    }
    guard request.path == "/v1/projects/\(project)/messages:send", request.head.method == .POST else {
      return .google(404, "NOT_FOUND", "Requested entity was not found.")
    }
    let message: FCMBody
    do throws(FCMBody.Violation) {
      message = try FCMBody(request.body)
    } catch {
      let violation = ["field": error.field, "description": error.description]
      let detail: [String: Any] = ["@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]]
      return .google(400, "INVALID_ARGUMENT", error.description, details: [detail])
    }
    let rule = plan.rule(for: message.token)
    if let rule, rule.status != 200 {
      var answer = Answer.fcm(rule.status, reason: rule.reason)
      answer.delayMilliseconds = rule.delayMilliseconds
      return answer
    }
    var name = "projects/\(project)/messages/0"
    if !message.isOnlyValidated {
      ledger.accept(.fcm) { sequence in
        name = "projects/\(project)/messages/\(sequence)"
        guard fate.isRecorded else { return nil }
        var shown: [String: String] = [:]
        for (name, value) in request.head.headers where name.lowercased() != "authorization" {
          shown[name.lowercased()] = value
        }
        return Delivery(
          sequence: sequence, provider: .fcm, token: message.token, topic: nil, project: project, headers: shown,
          payload: request.body, receivedAt: Date(), id: name)
      }
    }
    var answer = Answer.json(200, ["name": name])
    answer.delayMilliseconds = rule?.delayMilliseconds ?? 0
    return answer
  }

  private static func form(_ body: Data) -> [String: String] {
    var form: [String: String] = [:]
    for field in String(decoding: body, as: UTF8.self).split(separator: "&") {
      let parts = field.split(separator: "=", maxSplits: 1).map {
        $0.replacing("+", with: " ").removingPercentEncoding ?? ""
      }
      if parts.count == 2 { form[parts[0]] = parts[1] }
    }
    return form
  }
}
