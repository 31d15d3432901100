import Foundation
import NIOCore
import NIOHPACK

/// What is served on the FCM port: `messages:send`, the OAuth endpoint and the control calls.
final class FCMService: Responder {
  private let simulation: Simulation
  private let control: ControlService
  let accessTokens: AccessTokens

  init(_ simulation: Simulation, control: ControlService) {
    self.simulation = simulation
    self.control = control
    accessTokens = AccessTokens(simulation)
  }

  /// Whether a connection pushes shows only with its first push.
  func opened(_ connection: Connection) {}

  func respond(to request: Request, on connection: Connection) -> Action {
    let path = request.pathOnly
    if path.hasPrefix("/_control") { return control.respond(to: request) }
    if path == "/token" { return token(request, on: connection) }
    return send(request, project: Self.project(in: path), on: connection)
  }

  /// `/v1/projects/{project}/messages:send`.
  private static func project(in path: Substring) -> String? {
    let parts = path.split(separator: "/", omittingEmptySubsequences: false)
    guard parts.count == 5, parts[1] == "v1", parts[2] == "projects", !parts[3].isEmpty,
      parts[4] == "messages:send"
    else { return nil }
    return String(parts[3])
  }

  // MARK: OAuth

  private func token(_ request: Request, on connection: Connection) -> Action {
    let faults = simulation.faults
    if faults.fcm.outage { return .dropConnection }
    let delay = TimeAmount.milliseconds(Int64(faults.oauthLatencyMilliseconds))
    if let status = faults.oauthStatus {
      let failure = AccessTokens.Failure(
        error: status == 400 ? "invalid_grant" : "internal_failure", description: "Simulated.")
      return .answer(faults.fcm.html ? .html(status) : .json(status, failure.json), after: delay)
    }
    guard request.method == "POST" else { return .answer(.html(405)) }
    do throws(AccessTokens.Failure) {
      let body = try accessTokens.issue(
        form: Form.decode(String(buffer: request.body)), port: connection.channel.localAddress?.port ?? 0,
        now: simulation.configuration.now())
      simulation.count { $0.oauthTokens += 1 }
      return .answer(.json(200, body), after: delay)
    } catch {
      return .answer(.json(400, error.json), after: delay)
    }
  }

  // MARK: messages:send

  private func send(_ request: Request, project: String?, on connection: Connection) -> Action {
    if !connection.counted {
      connection.counted = true
      simulation.count { $0.connections += 1 }
    }
    let fate = simulation.fate(of: .fcm)
    if let action = fate.action { return action }
    let closing = fate.faults.goAwayEvery.map { connection.requests.isMultiple(of: $0) } ?? false
    if closing { connection.goAway() }
    // Google's front end answers for paths it does not know, in HTML.
    guard let project else { return .answer(.html(404)) }
    guard request.method == "POST" else { return .answer(.html(405)) }

    let now = simulation.configuration.now()
    var delay = fate.faults.latencyMilliseconds
    var token = ""
    var id = ""
    var validateOnly = false
    var failure: FCMStatus?
    var extra: [(name: String, value: String)] = []
    do throws(FCMStatus) {
      guard accessTokens.accepts(request.headers.first(name: "authorization"), now: now) else {
        throw .unauthenticated
      }
      guard project == simulation.credentials.projectID else { throw .projectNotFound }
      let message = try FCMRequest(request.body)
      token = message.recipient
      validateOnly = message.validateOnly
      id = "projects/\(project)/messages/\(validateOnly ? "fake_message_id" : Self.messageID(now))"
      if let rule = simulation.takeRule(for: token) {
        delay += rule.delayMilliseconds
        extra = rule.headers
        if rule.status != 200 { throw FCMStatus(code: rule.status, reason: rule.reason) }
      }
    } catch {
      failure = error
    }
    if let status = fate.status {
      failure = FCMStatus(code: status, reason: fate.faults.reason)
      extra = fate.faults.headers
    }
    if !validateOnly || failure != nil {
      simulation.record(
        Delivery(
          provider: .fcm, token: token, target: project, headers: request.headers.kept, receivedAt: now,
          status: failure?.code ?? 200, reason: failure?.reason, id: failure == nil ? id : "",
          body: request.body))
    }
    if failure == nil, fate.hits(fate.faults.loseAnswerEvery) { return .dropConnection }
    var reply: Reply
    if let failure {
      reply = fate.faults.html ? .html(failure.code) : .json(failure.code, failure.json)
    } else {
      reply = .json(200, #"{"name":\#(JSONText.string(id))}"#)
    }
    reply.headers += extra
    reply.isEndless = fate.faults.endless
    if closing, !connection.isHTTP2 { reply.headers.append(("connection", "close")) }
    return .answer(reply, after: .milliseconds(Int64(delay)))
  }

  /// Looks like Google's: `0:microseconds%hex`.
  private static func messageID(_ now: Date) -> String {
    "0:\(Int(now.timeIntervalSince1970 * 1_000_000))%\(String(UInt64.random(in: 0 ... .max), radix: 16))"
  }
}

/// `application/x-www-form-urlencoded`.
enum Form {
  /// The fields; of a repeated one the last.
  static func decode(_ text: String) -> [String: String] {
    var fields: [String: String] = [:]
    for pair in text.split(separator: "&") {
      let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      let decoded = parts.map { $0.replacing("+", with: " ").removingPercentEncoding ?? "" }
      fields[decoded[0]] = decoded.count > 1 ? decoded[1] : ""
    }
    return fields
  }
}
