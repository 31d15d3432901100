import Crypto
import Foundation
import HTTP
import NIOCore
import NIOHPACK
import Providers

/// Apple's side of `POST /3/device/{token}`.
struct APNsService: PushService {
  struct Claims: Decodable {
    let iss: String
    /// Apple expects whole seconds: a fraction does not decode.
    let iat: Int
  }

  let simulation: SimulatedProviders
  let provider = Delivery.Provider.apns
  let knownTokens = KnownTokens<Claims>()

  func opened(_ connection: Connection) {
    simulation.countOnce(connection)
    connection.topics = simulation.topics
    if simulation.faults.apns.outage { Listener.breakOff(connection.channel) }
  }

  func respond(to request: Request, on connection: Connection) -> Action {
    answer(request, to: request.headers.first(name: "apns-topic") ?? "", on: connection) {
      push, now throws(Refusal) in
      push.id = request.headers.first(name: "apns-id") ?? UUID().uuidString.lowercased()
      defer { push.headers = [("apns-id", push.id)] }
      guard request.method == "POST" else { throw .apns(.methodNotAllowed) }
      push.token = try APNsRequest.token(in: request.pathOnly)
      try authenticate(request, on: connection, now: now)
      push.environment = connection.keyID == simulation.credentials.sandboxKeyID ? .sandbox : .production
      push.id = try APNsRequest.id(request.headers) ?? push.id
      try APNsRequest.check(
        request, token: push.token, topics: connection.topics, isRegistered: simulation.hasRule(for:))
    }
  }

  func refusal(_ status: Int, reason: String?, timestamp: Int?) -> Refusal {
    .apns(status, reason ?? Usual(status).apns.rawValue, timestamp: timestamp)
  }

  /// Checks the provider token against earlier ones of the connection (Apple, "Establishing a token-based
  /// connection to APNs"): the first valid one fixes the key and lifts the limit of one stream; a second
  /// change within the interval blocks the connection for the length of the interval.
  private func authenticate(_ request: Request, on connection: Connection, now: Date) throws(Refusal) {
    let fields = request.headers["authorization"]
    guard let field = fields.first else { throw .apns(.missingProviderToken) }
    let token = String(field.dropFirst(7))
    // Comparing the texts is enough in nearly all cases, because the token rarely changes.
    if let known = connection.providerToken, !known.utf8.elementsEqual(token.utf8),
      let other = CompactJWT(token)?.header.kid, other != connection.keyID
    {
      throw .apns(.unrelatedKeyIDInToken)
    }
    guard fields.count == 1 else { throw .apns(.duplicateHeaders) }
    guard !token.isEmpty, field.prefix(7).lowercased() == "bearer " else {
      throw .apns(.missingProviderToken)
    }
    let claims = try knownTokens.claims(of: token) { () throws(Refusal) in
      let claims = try verify(token)
      simulation.count { $0.jwts += 1 }
      return claims
    }
    let age = now.timeIntervalSince1970 - Double(claims.iat)
    guard age <= 3600 else { throw .apns(.expiredProviderToken) }
    guard age >= 0 else { throw .apns(.invalidProviderToken) }

    if let end = connection.blockedUntil, now < end { throw .apns(.tooManyProviderTokenUpdates) }
    guard let known = connection.providerToken else {
      connection.providerToken = token
      connection.keyID = CompactJWT(token)?.header.kid
      connection.allowStreams(1000)
      return
    }
    guard known != token else { return }
    let interval = simulation.configuration.providerTokenInterval
    if let changed = connection.tokenChangedAt, now.timeIntervalSince(changed) < interval {
      connection.blockedUntil = now + interval
      throw .apns(.tooManyProviderTokenUpdates)
    }
    connection.providerToken = token
    connection.tokenChangedAt = now
  }

  private func verify(_ token: String) throws(Refusal) -> Claims {
    let credentials = simulation.credentials
    let keys = [credentials.keyID: credentials.apnsKey, credentials.sandboxKeyID: credentials.sandboxKey]
    guard let jwt = CompactJWT(token), let key = jwt.header.kid.flatMap({ keys[$0] }),
      jwt.isSigned(by: key.publicKey),
      let claims = try? JSONDecoder().decode(Claims.self, from: jwt.claims), claims.iss == credentials.teamID
    else { throw .apns(.invalidProviderToken) }
    return claims
  }
}

extension Refusal {
  static func apns(_ reason: Reason) -> Refusal { .apns(reason.apnsStatus, reason.rawValue) }

  fileprivate static func apns(_ status: Int, _ reason: String, timestamp: Int? = nil) -> Refusal {
    Refusal(
      status: status, reason: reason,
      body: .object(
        timestamp.map { ["reason": .string(reason), "timestamp": .integer(Int64($0))] }
          ?? ["reason": .string(reason)]))
  }
}

extension Reason {
  /// The status that comes with a reason (Apple: "Handling notification responses from APNs").
  fileprivate var apnsStatus: Int {
    switch self {
    case .expiredProviderToken, .invalidProviderToken, .missingProviderToken, .unrelatedKeyIDInToken: 403
    case .badPath: 404
    case .methodNotAllowed: 405
    case .payloadTooLarge: 413
    case .tooManyProviderTokenUpdates: 429
    default: 400
    }
  }
}

/// A push to APNs, checked as Apple checks it but for the provider token (Apple: "Sending notification requests to
/// APNs").
enum APNsRequest {
  private static let pushTypes: Set<String> = [
    "alert", "background", "complication", "controls", "fileprovider", "liveactivity", "location", "mdm",
    "pushtotalk", "voip", "widgets",
  ]

  /// The device token that a path names.
  static func token(in path: Substring) throws(Refusal) -> String {
    let prefix = "/3/device"
    guard path.hasPrefix(prefix) else { throw .apns(.badPath) }
    let rest = path.dropFirst(prefix.count)
    if rest.isEmpty || rest == "/" { throw .apns(.missingDeviceToken) }
    guard rest.first == "/", !rest.dropFirst().contains("/") else { throw .apns(.badPath) }
    return String(rest.dropFirst())
  }

  /// The id that the request gives the notification, in lower case, as the answer repeats it.
  static func id(_ headers: HPACKHeaders) throws(Refusal) -> String? {
    let id = try headers.only("apns-id", .apns(.duplicateHeaders))
    if let id, UUID(uuidString: id) == nil { throw .apns(.badMessageID) }
    return id?.lowercased()
  }

  /// Checks all but the id and the provider token.
  /// - Parameters:
  ///   - topics: what the key may push to; a bundle also serves its `.voip`, `.complication` and other suffixes.
  ///   - isRegistered: whether a malformed token passes because it has a rule.
  static func check(_ request: Request, token: String, topics: Set<String>, isRegistered: (String) -> Bool)
    throws(Refusal)
  {
    func field(_ name: String) throws(Refusal) -> String? {
      try request.headers.only(name, .apns(.duplicateHeaders))
    }
    let topic = try field("apns-topic")
    let pushType = try field("apns-push-type")
    let priority = try field("apns-priority")
    let expiration = try field("apns-expiration")
    let collapseID = try field("apns-collapse-id")
    guard let topic, !topic.isEmpty else { throw .apns(.missingTopic) }
    guard allows(topic, topics) else { throw .apns(.topicDisallowed) }
    if let pushType, !pushTypes.contains(pushType) { throw .apns(.invalidPushType) }
    if let priority, !["1", "5", "10"].contains(priority) { throw .apns(.badPriority) }
    if pushType == "background", priority == "10" { throw .apns(.badPriority) }
    if let expiration, UInt32(expiration) == nil { throw .apns(.badExpirationDate) }
    if let collapseID, collapseID.utf8.count > 64 { throw .apns(.badCollapseID) }
    guard isWellFormed(token) || isRegistered(token) else { throw .apns(.badDeviceToken) }
    let limit = pushType == "voip" ? 5120 : 4096
    guard request.body.readableBytes <= limit else { throw .apns(.payloadTooLarge) }
    // An object with an object `aps`; the rest is the app's business.
    guard case .object = (try? JSON.parse(request.body))?["aps"] else { throw .apns(.payloadEmpty) }
  }

  private static func allows(_ topic: String, _ topics: Set<String>) -> Bool {
    if topics.contains(topic) { return true }
    guard let dot = topic.lastIndex(of: ".") else { return false }
    return ["voip", "complication", "pushkit", "push-type"].contains(topic[topic.index(after: dot)...])
      && topics.contains(String(topic[..<dot]))
  }

  /// Hex of any even length from 6 on, so that tests can use short ones; all zeros is the token that cannot exist.
  private static func isWellFormed(_ token: String) -> Bool {
    token.utf8.count >= 6 && token.utf8.count.isMultiple(of: 2)
      && token.utf8.allSatisfy { $0.hexadecimalValue != nil }
      && token.utf8.contains { $0 != UInt8(ascii: "0") }
  }
}
