import Foundation
import NIOCore
import NIOHPACK

/// Apple's side of `POST /3/device/{token}`.
final class APNsService: Responder {
  private let simulation: Simulation
  private let tokens: ProviderTokens

  init(_ simulation: Simulation) {
    self.simulation = simulation
    tokens = ProviderTokens(simulation.credentials)
  }

  func opened(_ connection: Connection) {
    simulation.count { $0.connections += 1 }
    connection.topics = simulation.topics
    if simulation.faults.apns.outage { SocketEnd.close(connection.channel) }
  }

  func respond(to request: Request, on connection: Connection) -> Action {
    let fate = simulation.fate(of: .apns)
    if let action = fate.action { return action }
    if let every = fate.faults.goAwayEvery, connection.requests.isMultiple(of: every) { connection.goAway() }

    let now = simulation.configuration.now()
    var token = ""
    var delay = fate.faults.latencyMilliseconds
    var answer: Answer
    do throws(APNsFailure) {
      guard request.method == "POST" else { throw .init(.methodNotAllowed) }
      token = try APNsRequest.token(in: request.pathOnly)
      try authenticate(request, on: connection, now: now)
      let push = try APNsRequest(
        request, token: token, topics: connection.topics, isRegistered: simulation.hasRule(for:))
      if let rule = simulation.takeRule(for: token) {
        delay += rule.delayMilliseconds
        answer = Answer(rule, id: push.id, now: now)
      } else {
        answer = Answer(status: 200, id: push.id)
      }
    } catch {
      answer = Answer(
        error.reason, id: request.headers.first(name: "apns-id") ?? UUID().uuidString.lowercased())
    }
    if let status = fate.status {
      answer = Answer(
        status: status, reason: fate.faults.reason ?? APNsReason.usual(for: status).rawValue, id: answer.id)
      answer.headers = fate.faults.headers
    }
    simulation.record(
      Delivery(
        provider: .apns, token: token, target: request.headers.first(name: "apns-topic") ?? "",
        headers: request.headers.kept, receivedAt: now, status: answer.status, reason: answer.reason,
        id: answer.id,
        body: request.body))
    if answer.status == 200, fate.hits(fate.faults.loseAnswerEvery) { return .dropConnection }
    var reply = answer.reply(html: fate.faults.html)
    reply.isEndless = fate.faults.endless
    return .answer(reply, after: .milliseconds(Int64(delay)))
  }

  /// Checks the provider token and what the connection has seen before (Apple, "Establishing a token-based connection
  /// to APNs"): the first good one fixes the key and lifts the limit of one stream; a second change within the interval
  /// blocks the connection for as long.
  private func authenticate(_ request: Request, on connection: Connection, now: Date) throws(APNsFailure) {
    let fields = request.headers["authorization"]
    // Told from the text where it is the same as before, which it nearly always is.
    let isSame = connection.providerToken.map {
      fields.first?.dropFirst(7).utf8.elementsEqual($0.utf8) == true
    }
    if isSame == false, let other = ProviderTokens.keyID(fields), other != connection.keyID {
      throw .init(.unrelatedKeyIDInToken)
    }
    let (token, keyID) = try tokens.check(fields, now: now) {
      simulation.count { $0.jwts += 1 }
    }
    if let end = connection.blockedUntil, now < end { throw .init(.tooManyProviderTokenUpdates) }
    guard let known = connection.providerToken else {
      (connection.providerToken, connection.keyID) = (token, keyID)
      connection.allowStreams(1000)
      return
    }
    guard known != token else { return }
    let interval = simulation.configuration.providerTokenInterval
    if let changed = connection.tokenChangedAt, now.timeIntervalSince(changed) < interval {
      connection.blockedUntil = now + interval
      throw .init(.tooManyProviderTokenUpdates)
    }
    (connection.providerToken, connection.tokenChangedAt) = (token, now)
  }
}

extension APNsService {
  /// What APNs says.
  private struct Answer {
    var status: Int
    var reason: String?
    var id: String
    /// Milliseconds since 1970.
    var timestamp: Int?
    /// What comes along.
    var headers: [(name: String, value: String)] = []

    init(status: Int, reason: String? = nil, id: String) {
      self.status = status
      self.reason = reason
      self.id = id
    }

    init(_ reason: APNsReason, id: String) {
      self.init(status: reason.status, reason: reason.rawValue, id: id)
    }

    init(_ rule: TokenRule, id: String, now: Date) {
      let reason = rule.reason ?? APNsReason.usual(for: rule.status).rawValue
      self.init(status: rule.status, reason: rule.status == 200 ? nil : reason, id: id)
      headers = rule.headers
      switch rule.timestamp {
      case .at(let milliseconds): timestamp = milliseconds
      case .now where rule.status == 410: timestamp = Int(now.timeIntervalSince1970 * 1000)
      case .now, .none: break
      }
    }

    func reply(html: Bool) -> Reply {
      var reply = Reply(status: status)
      if let reason {
        var body = #"{"reason":\#(JSONText.string(reason))"#
        if let timestamp { body += #","timestamp":\#(timestamp)"# }
        reply = html ? .html(status) : .json(status, body + "}")
      }
      reply.headers.append(("apns-id", id))
      reply.headers += headers
      return reply
    }
  }
}
