import Crypto
import Foundation
import NIOCore
import NIOHPACK

/// A push service (RFC 8030): `/push/ID` is for those who send, `/subscriptions` for the phones.
final class WebPushService: Responder {
  private let simulation: Simulation
  private let tokens = VAPIDTokens()
  let subscriptions = Subscriptions()

  init(_ simulation: Simulation) {
    self.simulation = simulation
  }

  /// Whether a connection pushes shows only with its first push.
  func opened(_ connection: Connection) {}

  func respond(to request: Request, on connection: Connection) -> Action {
    let parts = request.pathOnly.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
    do throws(WebPushFailure) {
      guard let origin = Self.origin(request, on: connection) else {
        throw WebPushFailure(421, "MisdirectedRequest", "this is another service's origin")
      }
      switch (request.method, parts.first, parts.count) {
      case (_, "push", 2): return push(request, to: String(parts[2]), at: origin, on: connection)
      case ("POST", "subscriptions", 1): return .answer(try subscribe(request, at: origin))
      case ("DELETE", "subscriptions", 2):
        try subscriptions.end(String(parts[2]))
        simulation.log.wakeReaders()
        return .answer(.json(200, #"{"status":"removed"}"#))
      case ("GET", "subscriptions", 3) where parts[3] == "messages":
        return try messages(request, of: String(parts[2]))
      default:
        throw WebPushFailure(404, "NotFound", "there is nothing here: \(request.method) \(request.pathOnly)")
      }
    } catch {
      return .answer(error.reply)
    }
  }

  /// Where the request was sent to; nil if that is not here.
  private static func origin(_ request: Request, on connection: Connection) -> String? {
    guard let port = connection.channel.localAddress?.port else { return nil }
    let authority = request.authority.lowercased()
    let own = ["127.0.0.1", "localhost"].map { port == 443 ? $0 : "\($0):\(port)" }
    return own.contains(authority) ? "https://\(authority)" : nil
  }

  // MARK: Phones

  private struct SubscriptionBody: Decodable {
    let vapid: String
  }

  private func subscribe(_ request: Request, at origin: String) throws(WebPushFailure) -> Reply {
    guard
      let body = try? JSONDecoder().decode(SubscriptionBody.self, from: Data(request.body.readableBytesView)),
      let key = Base64URL.decode(body.vapid), key.count == 65,
      (try? P256.Signing.PublicKey(x963Representation: key)) != nil
    else {
      throw .malformed(
        "BadRequest", "the body must be {\"vapid\": an uncompressed point on P-256 in base64url}")
    }
    guard let id = subscriptions.add(key: key) else {
      throw WebPushFailure(503, "Full", "there are \(Subscriptions.limit) subscriptions already")
    }
    var reply = Reply.json(201, #"{"endpoint":"\#(origin)/push/\#(id)"}"#)
    reply.headers.append(("location", "\(origin)/subscriptions/\(id)"))
    return reply
  }

  private func messages(_ request: Request, of id: String) throws(WebPushFailure) -> Action {
    let query = Form.decode(String(request.path.drop { $0 != "?" }.dropFirst()))
    func number(_ name: String, _ limit: Double) throws(WebPushFailure) -> Double {
      guard let text = query[name] else { return 0 }
      guard let value = Double(text), value >= 0, value < 1e15 else {
        throw .malformed("BadRequest", "\(name) must be a number from 0 on")
      }
      return min(value, limit)
    }
    for name in query.keys where !["since", "wait"].contains(name) {
      throw .malformed("BadRequest", "\(name) is not a parameter: since and wait are")
    }
    let since = Int(try number("since", .infinity))
    let wait = try number("wait", 300)
    _ = try subscriptions.key(of: id)
    return .later { [self] in
      if wait > 0 {
        await simulation.log.wait(
          until: { [subscriptions] _ in subscriptions.hasNews(id, after: since) }, timeout: .seconds(wait))
      }
      do throws(WebPushFailure) {
        _ = try subscriptions.key(of: id)
      } catch {
        return error.reply
      }
      let waiting = subscriptions.messages(of: id, after: since, now: simulation.configuration.now())
      let messages = simulation.log.entries(numbered: waiting)
      var reply = Reply.json(200, "")
      reply.body.writeString(#"{"next":\#(max(since, waiting.last ?? 0)),"messages":["#)
      for (index, message) in messages.enumerated() {
        if index > 0 { reply.body.writeString(",") }
        message.write(to: &reply.body)
      }
      reply.body.writeString("]}")
      return reply
    }
  }

  // MARK: Application servers

  private func push(_ request: Request, to id: String, at origin: String, on connection: Connection) -> Action
  {
    if !connection.counted {
      connection.counted = true
      simulation.count { $0.connections += 1 }
    }
    let fate = simulation.fate(of: .webPush)
    if let action = fate.action { return action }
    let closing = fate.faults.goAwayEvery.map { connection.requests.isMultiple(of: $0) } ?? false
    if closing { connection.goAway() }

    let now = simulation.configuration.now()
    var delay = fate.faults.latencyMilliseconds
    var status = 201
    var message: WebPushRequest?
    var failure: WebPushFailure?
    var extra: [(name: String, value: String)] = []
    do throws(WebPushFailure) {
      message = try check(request, to: id, at: origin, now: now)
      if let rule = simulation.takeRule(for: id) {
        delay += rule.delayMilliseconds
        extra = rule.headers
        guard (200..<300).contains(rule.status) else {
          throw WebPushFailure(status: rule.status, reason: rule.reason)
        }
        // 200 is how the control calls say that all is well.
        status = rule.status == 200 ? 201 : rule.status
      }
    } catch {
      failure = error
    }
    if let status = fate.status {
      failure = WebPushFailure(status: status, reason: fate.faults.reason)
      extra = fate.faults.headers
    }
    let messageID = failure == nil ? UUID().uuidString.lowercased() : ""
    simulation.record(
      Delivery(
        provider: .webPush, token: id, target: origin, headers: request.headers.kept, receivedAt: now,
        status: failure?.status ?? status, reason: failure?.reason, id: messageID, body: request.body)
    ) { sequence in
      guard failure == nil, let message else { return }
      subscriptions.deliver(sequence, message, to: id, now: now)
    }
    if failure == nil, fate.hits(fate.faults.loseAnswerEvery) { return .dropConnection }
    var reply: Reply
    if let failure {
      reply = fate.faults.html ? .html(failure.status) : failure.reply
      reply.headers += extra
    } else {
      reply = Reply(
        status: status,
        headers: [
          ("location", "\(origin)/message/\(messageID)"), ("ttl", String(message?.timeToLive ?? 0)),
        ])
    }
    reply.isEndless = fate.faults.endless
    if closing, !connection.isHTTP2 { reply.headers.append(("connection", "close")) }
    return .answer(reply, after: .milliseconds(Int64(delay)))
  }

  private func check(
    _ request: Request, to id: String, at origin: String, now: Date
  ) throws(WebPushFailure) -> WebPushRequest {
    guard request.method == "POST" else {
      throw WebPushFailure(405, "MethodNotAllowed", "messages are sent with POST")
    }
    let key = try subscriptions.key(of: id)
    try tokens.check(request.headers["authorization"], origin: origin, key: key, now: now) {
      simulation.count { $0.vapidTokens += 1 }
    }
    return try WebPushRequest(request)
  }
}
