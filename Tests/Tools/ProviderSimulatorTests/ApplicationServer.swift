import Crypto
import Foundation
import NIOHTTP1
import ProviderSimulator

/// A sender of Web Push messages: the key pair of RFC 8292, and requests in which each part can be made
/// wrong.
struct ApplicationServer {
  let key = P256.Signing.PrivateKey()

  var publicKey: String { JWT.encode(key.publicKey.x963Representation) }

  /// `Authorization`; each claim can be made wrong.
  func authorization(
    for origin: String, exp: String? = nil, lifetime: TimeInterval = 3600, now: Date = Date(),
    sub: String? = #""mailto:admin@example.org""#, alg: String = "ES256",
    signer: P256.Signing.PrivateKey? = nil,
    k: String? = nil
  ) throws -> String {
    let exp = exp ?? String(Int(now.timeIntervalSince1970 + lifetime))
    let claims = [#""aud":"\#(origin)""#, #""exp":\#(exp)"#] + (sub.map { [#""sub":\#($0)"#] } ?? [])
    let signed =
      JWT.part(#"{"typ":"JWT","alg":"\#(alg)"}"#) + "." + JWT.part("{\(claims.joined(separator: ","))}")
    let signature = try (signer ?? key).signature(for: Data(signed.utf8)).rawRepresentation
    return "vapid t=\(signed).\(JWT.encode(signature)), k=\(k ?? publicKey)"
  }

  /// A body with a valid header, except for what the arguments change. The record is random bytes, because
  /// the push service cannot decrypt it.
  static func body(
    record: Int = 100, size: UInt32 = 4096, keyID: [UInt8]? = nil, salt: Int = 16
  ) -> [UInt8] {
    let keyID = keyID ?? [UInt8](P256.KeyAgreement.PrivateKey().publicKey.x963Representation)
    var body = [UInt8](repeating: 7, count: salt)
    body += (0..<4).reversed().map { UInt8(truncatingIfNeeded: size >> ($0 * 8)) }
    body.append(UInt8(keyID.count))
    return body + keyID + (0..<record).map { _ in UInt8.random(in: 0...255) }
  }
}

extension Client {
  /// Subscribes as a phone does. Returns the endpoint.
  func subscribe(_ server: ApplicationServer, at origin: String? = nil) async throws -> String {
    let answer = try await send(
      .POST, "\(origin ?? simulator.webPushEndpoint)/subscriptions", [:], #"{"vapid":"\#(server.publicKey)"}"#
    )
    return answer.json["endpoint"] as? String ?? ""
  }

  /// A valid message, except for what the arguments change. A header that is nil is left out.
  func send(
    to endpoint: String, from server: ApplicationServer, headers: [String: String?] = [:],
    also: HTTPHeaders = [:], method: HTTPMethod = .POST, body: [UInt8] = ApplicationServer.body()
  ) async throws -> Answer {
    let fields = try fields(to: endpoint, from: server, headers: headers, also: also)
    return try await send(method, endpoint, fields, bytes: body.isEmpty ? nil : body)
  }

  func fields(
    to endpoint: String, from server: ApplicationServer, headers: [String: String?] = [:],
    also: HTTPHeaders = [:]
  ) throws -> HTTPHeaders {
    let origin = endpoint.split(separator: "/").prefix(2).joined(separator: "//")
    var fields: [String: String?] = ["ttl": "60", "content-encoding": "aes128gcm", "urgency": "high"]
    fields["authorization"] = try server.authorization(for: origin)
    fields.merge(headers) { $1 }
    return HTTPHeaders(
      fields.compactMap { name, value in value.map { (name, $0) } } + also.map { ($0.name, $0.value) })
  }

  /// Fetches the messages that wait for a phone.
  func messages(at endpoint: String, since: Int = 0, wait: Int = 0) async throws -> (
    next: Int, messages: [[String: Any]]
  ) {
    let answer = try await send(
      .GET, endpoint.replacing("/push/", with: "/subscriptions/") + "/messages?since=\(since)&wait=\(wait)")
    return (answer.json["next"] as? Int ?? -answer.status, answer.json["messages"] as? [[String: Any]] ?? [])
  }
}

extension String {
  /// The subscription's id, at the end of an endpoint.
  var subscriptionID: String { String(split(separator: "/").last ?? "") }
}
