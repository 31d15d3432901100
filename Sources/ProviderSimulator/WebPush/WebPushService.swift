import Crypto
import Foundation
import HTTP
import NIOCore
import NIOHPACK
import Providers

/// A push service (RFC 8030): `/push/ID` is for those who send, `/subscriptions` for the phones.
final class WebPushService: PushService {
  let simulation: Simulation
  let provider = Delivery.Provider.webPush
  private let tokens = VAPIDTokens()
  let subscriptions = Subscriptions()

  init(_ simulation: Simulation) {
    self.simulation = simulation
  }

  func respond(to request: Request, on connection: Connection) -> Action {
    let parts = request.pathOnly.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
    do throws(Refusal) {
      guard let origin = Self.origin(request, on: connection) else {
        throw .webPush(421, "MisdirectedRequest", "this is another service's origin")
      }
      switch (request.method, parts.first, parts.count) {
      case (_, "push", 2): return push(request, to: String(parts[2]), at: origin, on: connection)
      case ("POST", "subscriptions", 1): return .answer(try subscribe(request, at: origin))
      case ("DELETE", "subscriptions", 2):
        try subscriptions.end(String(parts[2]))
        return .answer(.json(200, ["status": "removed"]))
      case ("GET", "subscriptions", 3) where parts[3] == "messages":
        return try messages(request.query, of: String(parts[2]))
      default:
        throw .webPush(404, "NotFound", "there is nothing here: \(request.method) \(request.pathOnly)")
      }
    } catch {
      return .answer(.json(error.status, error.body))
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

  private func subscribe(_ request: Request, at origin: String) throws(Refusal) -> Reply {
    guard let key = (try? JSON.parse(request.body))?["vapid"]?.string.flatMap(Base64URL.decodeUnpadded),
      key.count == 65, (try? P256.Signing.PublicKey(x963Representation: key)) != nil
    else {
      throw .webPush(
        400, "BadRequest", "the body must be {\"vapid\": an uncompressed point on P-256 in base64url}")
    }
    guard let id = subscriptions.add(key: key) else {
      throw .webPush(503, "Full", "there are \(Subscriptions.limit) subscriptions already")
    }
    var reply = Reply.json(201, ["endpoint": .string("\(origin)/push/\(id)")])
    reply.headers.append(("location", "\(origin)/subscriptions/\(id)"))
    return reply
  }

  private func messages(_ query: [String: String], of id: String) throws(Refusal) -> Action {
    func number(_ name: String, _ limit: Double) throws(Refusal) -> Double {
      guard let text = query[name] else { return 0 }
      guard let value = Double(text), value >= 0, value < 1e15 else {
        throw .webPush(400, "BadRequest", "\(name) must be a number from 0 on")
      }
      return min(value, limit)
    }
    for name in query.keys where !["since", "wait"].contains(name) {
      throw .webPush(400, "BadRequest", "\(name) is not a parameter: since and wait are")
    }
    let since = Int(try number("since", .infinity))
    let wait = try number("wait", 300)
    _ = try subscriptions.key(of: id)
    return .later { [self] in
      if wait > 0 {
        await simulation.log.wait(
          until: { [subscriptions] _ in subscriptions.hasNews(id, after: since) }, timeout: .seconds(wait))
      }
      do throws(Refusal) {
        _ = try subscriptions.key(of: id)
      } catch {
        return .json(error.status, error.body)
      }
      let waiting = subscriptions.messages(of: id, after: since, now: simulation.configuration.now())
      return simulation.log.entries(numbered: waiting)
        .reply(next: max(since, waiting.last ?? 0), as: "messages")
    }
  }

  // MARK: Application servers

  private func push(
    _ request: Request, to id: String, at origin: String, on connection: Connection
  ) -> Action {
    answer(request, to: origin, on: connection) { push, now throws(Refusal) in
      push.token = id
      guard request.method == "POST" else {
        throw .webPush(405, "MethodNotAllowed", "messages are sent with POST")
      }
      let key = try subscriptions.key(of: id)
      try tokens.check(request.headers["authorization"], origin: origin, key: key, now: now) {
        simulation.count { $0.vapidTokens += 1 }
      }
      let message = try WebPushRequest(request)
      push.id = UUID().uuidString.lowercased()
      push.reply = Reply(
        status: 201,
        headers: [("location", "\(origin)/message/\(push.id)"), ("ttl", String(message.timeToLive))])
      push.kept = { [subscriptions] in subscriptions.deliver($0, message, to: id, now: now) }
    }
  }

  func refusal(_ status: Int, reason: String?, timestamp: Int?) -> Refusal {
    .webPush(status, reason ?? Refusal.usualReason(for: status), "simulated")
  }
}

extension Refusal {
  static let unknownSubscription = webPush(404, "NotFound", "there is no such subscription")
  static let endedSubscription = webPush(410, "Gone", "the subscription has ended")

  /// RFC 8030 leaves the form of the body to the service: a word for programs, and what is wrong for whoever has to
  /// mend it.
  static func webPush(_ status: Int, _ reason: String, _ message: String) -> Refusal {
    Refusal(
      status: status, reason: reason,
      body: ["code": .integer(Int64(status)), "reason": .string(reason), "error": .string(message)])
  }

  fileprivate static func usualReason(for status: Int) -> String {
    switch status {
    case 300..<400: "Redirect"
    case 400: "BadRequest"
    case 401: "Unauthorized"
    case 403: "Forbidden"
    case 404: unknownSubscription.reason
    case 410: endedSubscription.reason
    case 413: "PayloadTooLarge"
    case 429: "TooManyRequests"
    default: "ServerError"
    }
  }
}
