import Crypto
import Foundation
import HTTP
import NIOCore
import NIOHPACK
import Providers

/// Apple's side of `POST /3/device/{token}`.
final class APNsService: PushService {
  private struct Claims: Decodable {
    let iss: String
    /// Apple wants whole seconds: a fraction does not decode.
    let iat: Int
  }

  let simulation: Simulation
  let provider = Delivery.Provider.apns
  private let knownTokens = KnownTokens<Claims>()

  init(_ simulation: Simulation) {
    self.simulation = simulation
  }

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
      push.id = try APNsRequest.id(request.headers) ?? push.id
      try APNsRequest.check(
        request, token: push.token, topics: connection.topics, isRegistered: simulation.hasRule(for:))
    }
  }

  func refusal(_ status: Int, reason: String?, timestamp: Int?) -> Refusal {
    .apns(status, reason ?? Reason.usual(apns: status).rawValue, timestamp: timestamp)
  }

  /// Checks the provider token and what the connection has seen before (Apple, "Establishing a token-based connection
  /// to APNs"): the first good one fixes the key and lifts the limit of one stream; a second change within the interval
  /// blocks the connection for as long.
  private func authenticate(_ request: Request, on connection: Connection, now: Date) throws(Refusal) {
    let fields = request.headers["authorization"]
    guard let field = fields.first else { throw .apns(.missingProviderToken) }
    let token = String(field.dropFirst(7))
    // Told from the text where it is the same as before, which it nearly always is.
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
      (connection.providerToken, connection.keyID) = (token, simulation.credentials.keyID)
      connection.allowStreams(1000)
      return
    }
    guard known != token else { return }
    let interval = simulation.configuration.providerTokenInterval
    if let changed = connection.tokenChangedAt, now.timeIntervalSince(changed) < interval {
      connection.blockedUntil = now + interval
      throw .apns(.tooManyProviderTokenUpdates)
    }
    (connection.providerToken, connection.tokenChangedAt) = (token, now)
  }

  private func verify(_ token: String) throws(Refusal) -> Claims {
    let credentials = simulation.credentials
    guard let jwt = CompactJWT(token), jwt.header.kid == credentials.keyID,
      jwt.isSigned(by: credentials.apnsKey.publicKey),
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

  /// The reason one meets with a status, where a rule or a fault names none.
  fileprivate static func usual(apns status: Int) -> Reason {
    switch status {
    case 403: .forbidden
    case 404: .badPath
    case 405: .methodNotAllowed
    case 410: .unregistered
    case 413: .payloadTooLarge
    case 429: .tooManyRequests
    case 503: .serviceUnavailable
    case 500...: .internalServerError
    default: .badDeviceToken
    }
  }
}
