import Crypto
import Foundation
import HTTP
import NIOCore
import NIOHPACK
import Providers

/// A push service (RFC 8030): `/push/ID` is for those who send, and so are `/fcm/send/ID` and `/wp/ID`, as Google has them;
/// `/subscriptions` is for the phones.
struct WebPushService: PushService {
  let simulation: SimulatedProviders
  let provider = Delivery.Provider.webPush
  let tokens = VAPIDTokens()

  private var subscriptions: Subscriptions { simulation.subscriptions }

  func respond(to request: Request, on connection: Connection) -> Action {
    let parts = request.pathOnly.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
    do throws(Refusal) {
      guard let origin = Self.origin(request, on: connection) else {
        throw .webPush(421, "MisdirectedRequest", "this is another service's origin")
      }
      switch (request.method, parts.first, parts.count) {
      case (_, "push", 2), (_, "wp", 2):
        return push(request, to: String(parts[2]), at: origin, on: connection)
      case (_, "fcm", 3) where parts[2] == "send":
        return push(request, to: String(parts[3]), at: origin, on: connection)
      case ("POST", "subscriptions", 1): return .answer(try subscribe(request, at: origin))
      case ("DELETE", "subscriptions", 2):
        try subscriptions.delete(String(parts[2]))
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
    let body = try? JSON.parse(request.body)
    guard let key = body?["vapid"]?.string.flatMap(Base64URL.decodeUnpadded),
      key.count == 65, (try? P256.Signing.PublicKey(x963Representation: key)) != nil
    else {
      throw .webPush(
        400, "BadRequest", "the body must be {\"vapid\": an uncompressed point on P-256 in base64url}")
    }
    let path = body?["path"].map { $0.string ?? "" } ?? "/push"
    guard ["/push", "/fcm/send", "/wp"].contains(path) else {
      throw .webPush(400, "BadRequest", "path is /push, or Google's /fcm/send or /wp")
    }
    guard let id = subscriptions.add(key: key, likeGoogles: path != "/push") else {
      throw .webPush(503, "Full", "there are \(Subscriptions.limit) subscriptions already")
    }
    var reply = Reply.json(201, ["endpoint": .string("\(origin)\(path)/\(id)")])
    reply.headers.append(("location", "\(origin)/subscriptions/\(id)"))
    return reply
  }

  private func messages(_ query: [String: String], of id: String) throws(Refusal) -> Action {
    let wanted: DeliveryQuery
    do {
      wanted = try DeliveryQuery(query, allowed: ["since", "wait"])
    } catch {
      throw .webPush(400, "BadRequest", error.message)
    }
    _ = try subscriptions.key(of: id)
    return .later { [self] in
      await simulation.log.wait(
        until: { [subscriptions] _ in subscriptions.hasNews(id, after: wanted.since) }, wanted.wait)
      do throws(Refusal) {
        _ = try subscriptions.key(of: id)
      } catch {
        return .json(error.status, error.body)
      }
      let waiting = subscriptions.messages(of: id, after: wanted.since, now: simulation.configuration.now())
      return simulation.log.entries(numbered: waiting)
        .reply(next: max(wanted.since, waiting.last ?? 0), as: "messages")
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
    .webPush(status, reason ?? Usual(status).webPush, "simulated")
  }
}

extension Refusal {
  static let unknownSubscription = webPush(404, "NotFound", "there is no such subscription")
  static let endedSubscription = webPush(410, "Gone", "the subscription has ended")

  /// RFC 8030 does not define the body. This one has a code for programs, and a message for the developer.
  static func webPush(_ status: Int, _ reason: String, _ message: String) -> Refusal {
    Refusal(
      status: status, reason: reason,
      body: ["code": .integer(Int64(status)), "reason": .string(reason), "error": .string(message)])
  }
}

/// A request to deliver a push message, read as strictly as RFC 8030 and 8291 are written.
struct WebPushRequest {
  /// A push service may refuse more (RFC 8291 4).
  static let maximumBody = 4096
  /// The longest time that a message is kept, in seconds: four weeks, as at Mozilla and Google.
  static let maximumTTL = 28 * 86400

  /// For how many seconds the message is kept, as granted.
  let timeToLive: Int
  /// Messages with the same one replace each other.
  let topic: String?

  init(_ request: Request) throws(Refusal) {
    guard request.body.readableBytes <= Self.maximumBody else {
      throw .webPush(
        413, "PayloadTooLarge",
        "the body has \(request.body.readableBytes) bytes, \(Self.maximumBody) are allowed")
    }
    timeToLive = try Self.timeToLive(request.headers)
    if let urgency = try Self.field("urgency", in: request.headers),
      !["very-low", "low", "normal", "high"].contains(urgency)
    {
      throw .webPush(400, "InvalidUrgency", "Urgency is very-low, low, normal or high (RFC 8030 5.3)")
    }
    topic = try Self.field("topic", in: request.headers)
    if let topic, topic.wholeMatch(of: /[A-Za-z0-9_-]{1,32}/) == nil {
      throw .webPush(400, "InvalidTopic", "Topic has 1 to 32 characters of base64url (RFC 8030 5.4)")
    }
    guard try Self.field("content-encoding", in: request.headers)?.lowercased() == "aes128gcm" else {
      throw .webPush(400, "InvalidContentEncoding", "Content-Encoding must be aes128gcm (RFC 8291 4)")
    }
    try Self.checkFrame(request.body)
  }

  private static func field(_ name: String, in headers: HPACKHeaders) throws(Refusal) -> String? {
    try headers.only(name, .webPush(400, "DuplicateHeader", "\(name) is there more than once"))
  }

  private static func timeToLive(_ headers: HPACKHeaders) throws(Refusal) -> Int {
    guard let text = try field("ttl", in: headers) else {
      throw .webPush(400, "MissingTTL", "TTL is missing (RFC 8030 5.2)")
    }
    guard !text.isEmpty, text.utf8.count <= 100,
      text.utf8.allSatisfy(\.isASCIIDigit)
    else { throw .webPush(400, "InvalidTTL", "TTL is a whole number of seconds from 0 on (RFC 8030 5.2)") }
    return min(Int(text) ?? .max, maximumTTL)
  }

  /// The header of the encrypted body and its one record (RFC 8188 2.1, RFC 8291 4).
  private static func checkFrame(_ body: ByteBuffer) throws(Refusal) {
    func malformed(_ message: String) -> Refusal { .webPush(400, "InvalidEncryption", message) }
    var body = body
    guard body.readSlice(length: 16) != nil, let recordSize = body.readInteger(as: UInt32.self),
      let length = body.readInteger(as: UInt8.self), let key = body.readBytes(length: Int(length))
    else { throw malformed("the body ends within the header: 16 bytes of salt, 4 of rs, 1 of idlen, keyid") }
    guard recordSize >= 18 else { throw malformed("rs is \(recordSize), 18 is the least (RFC 8188 2.1)") }
    guard key.count == 65, key[0] == 4, (try? P256.KeyAgreement.PublicKey(x963Representation: key)) != nil
    else {
      throw malformed("keyid is no uncompressed point on P-256 (RFC 8291 4)")
    }
    // The delimiter and the tag are there even where there is no plaintext.
    guard body.readableBytes >= 17 else { throw malformed("the record is cut short") }
    guard body.readableBytes < recordSize else {
      throw malformed(
        "rs must be greater than the one record, which has \(body.readableBytes) bytes (RFC 8291 4)")
    }
  }
}
