import AsyncHTTPClient
import Crypto
import CryptoExtras
import Foundation
import NIOCore
import NIOHTTP1
import NIOSSL
import ProviderSimulator
import TestSupport
import Testing

/// A simulator with a real HTTP client that trusts it.
struct Client: Sendable {
  struct Answer {
    let status: Int
    let headers: HTTPHeaders
    let body: String

    var reason: String? { json["reason"] as? String }
    var json: [String: Any] {
      (try? JSONSerialization.jsonObject(with: Data(body.utf8)) as? [String: Any]) ?? [:]
    }
  }

  let simulator: SimulatedProviders
  private let http: HTTPClient
  /// The default provider token of requests.
  let bearer: String

  private init(simulator: SimulatedProviders, http: HTTPClient) throws {
    (self.simulator, self.http) = (simulator, http)
    bearer = "bearer \(try Self.providerToken(simulator))"
  }

  /// Runs `body` against a fresh simulator and closes both.
  static func with(
    _ configuration: SimulatedProviders.Configuration = .init(),
    speaking version: HTTPClient.Configuration.HTTPVersion = .automatic, _ body: (Client) async throws -> Void
  ) async throws {
    let simulator = try await SimulatedProviders.start(configuration)
    let result: Result<Void, any Error>
    do { result = .success(try await with(simulator, speaking: version, body)) } catch {
      result = .failure(error)
    }
    await simulator.stop()
    try result.get()
  }

  /// Drops the connections to APNs, and passes `body` a new client: this one may not have noticed yet that
  /// its connections are closed.
  func dropConnections(_ body: (Client) async throws -> Void) async throws {
    await simulator.dropAPNsConnections()
    try await Self.with(simulator, body)
  }

  /// Runs `body` with a client of its own against a simulator that others use, too.
  static func with(
    _ simulator: SimulatedProviders, speaking version: HTTPClient.Configuration.HTTPVersion = .automatic,
    _ body: (Client) async throws -> Void
  ) async throws {
    var settings = HTTPClient.Configuration()
    settings.httpVersion = version
    settings.redirectConfiguration = .disallow
    settings.tlsConfiguration = try simulator.clientTLS
    settings.timeout = .init(connect: TimeAmount(longestWait), read: TimeAmount(longestWait))
    try await HTTPClient.withHTTPClient(configuration: settings) { http in
      try await body(try Client(simulator: simulator, http: http))
    }
  }

  func send(
    _ method: HTTPMethod, _ url: String, _ headers: HTTPHeaders = [:], _ body: String? = nil
  ) async throws -> Answer {
    try await send(method, url, headers, bytes: body.map { Array($0.utf8) })
  }

  func send(_ method: HTTPMethod, _ url: String, _ headers: HTTPHeaders, bytes: [UInt8]?) async throws
    -> Answer
  {
    let response = try await response(method, url, headers, bytes: bytes)
    let bytes = try await response.body.collect(upTo: 64 << 20)
    return Answer(status: Int(response.status.code), headers: response.headers, body: String(buffer: bytes))
  }

  /// The beginning of an answer, whose body is still to be read.
  func response(
    _ method: HTTPMethod, _ url: String, _ headers: HTTPHeaders, bytes: [UInt8]?
  ) async throws -> HTTPClientResponse {
    var request = HTTPClientRequest(url: url)
    request.method = method
    request.headers = headers
    if let bytes { request.body = .bytes(ByteBuffer(bytes: bytes)) }
    return try await http.execute(request, timeout: TimeAmount(longestWait))
  }

  // MARK: APNs

  static let token = String(repeating: "c0ffee", count: 8)

  /// A provider token; each claim can be made wrong.
  func providerToken(
    key: P256.Signing.PrivateKey? = nil, kid: String? = nil, iss: String? = nil, iat: String? = nil,
    alg: String = "ES256"
  ) throws -> String {
    try Self.providerToken(simulator, key: key, kid: kid, iss: iss, iat: iat, alg: alg)
  }

  private static func providerToken(
    _ simulator: SimulatedProviders, key: P256.Signing.PrivateKey? = nil, kid: String? = nil,
    iss: String? = nil, iat: String? = nil, alg: String = "ES256"
  ) throws -> String {
    let key = try key ?? P256.Signing.PrivateKey(pemRepresentation: simulator.apnsPrivateKeyPEM)
    let iat = iat ?? String(Int(Date().timeIntervalSince1970))
    let signed =
      JWT.part(#"{"alg":"\#(alg)","kid":"\#(kid ?? simulator.apnsKeyID)"}"#) + "."
      + JWT.part(#"{"iss":"\#(iss ?? simulator.apnsTeamID)","iat":\#(iat)}"#)
    return signed + "." + JWT.encode(try key.signature(for: Data(signed.utf8)).rawRepresentation)
  }

  /// A valid push, except for what the arguments change. A header that is nil is left out.
  func push(
    token: String = Client.token, headers: [String: String?] = [:], also: HTTPHeaders = [:],
    payload: String = #"{"aps":{"alert":"x"}}"#, method: HTTPMethod = .POST, path: String? = nil
  ) async throws -> Answer {
    var fields: [String: String?] = ["apns-topic": "org.example.chat", "apns-push-type": "alert"]
    fields["authorization"] = bearer
    fields.merge(headers) { $1 }
    var all = HTTPHeaders(fields.compactMap { name, value in value.map { (name, $0) } })
    for header in also { all.add(name: header.name, value: header.value) }
    return try await send(
      method, "\(simulator.apnsEndpoint)\(path ?? "/3/device/\(token)")", all, payload.isEmpty ? nil : payload
    )
  }

  // MARK: FCM

  /// The OAuth form; each claim can be made wrong.
  func assertion(
    key: _RSA.Signing.PrivateKey? = nil, iss: String? = nil, aud: String? = nil, scope: String? = nil,
    age: Int = 0, lifetime: Int = 3600
  ) throws -> String {
    let key = try key ?? _RSA.Signing.PrivateKey(pemRepresentation: simulator.serviceAccountPrivateKeyPEM)
    let iat = Int(Date().timeIntervalSince1970) - age
    let claims = [
      #""iss":"\#(iss ?? simulator.serviceAccountEmail)""#,
      #""aud":"\#(aud ?? simulator.fcmEndpoint + "/token")""#,
      #""scope":"\#(scope ?? "https://www.googleapis.com/auth/firebase.messaging")""#, #""iat":\#(iat)"#,
      #""exp":\#(iat + lifetime)"#,
    ]
    let signed = JWT.part(#"{"alg":"RS256"}"#) + "." + JWT.part("{\(claims.joined(separator: ","))}")
    let signature = try key.signature(for: SHA256.hash(data: Data(signed.utf8)), padding: .insecurePKCS1v1_5)
    return "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=\(signed)."
      + JWT.encode(signature.rawRepresentation)
  }

  func oauth(_ form: String, at endpoint: String? = nil) async throws -> Answer {
    try await send(
      .POST, "\(endpoint ?? simulator.fcmEndpoint)/token",
      ["content-type": "application/x-www-form-urlencoded"], form)
  }

  func accessToken() async throws -> String {
    try await oauth(assertion()).json["access_token"] as? String ?? ""
  }

  func message(
    _ body: String, bearer: String, project: String? = nil, endpoint: String? = nil
  ) async throws -> Answer {
    try await send(
      .POST,
      "\(endpoint ?? simulator.fcmEndpoint)/v1/projects/\(project ?? simulator.projectID)/messages:send",
      ["authorization": "Bearer \(bearer)", "content-type": "application/json"], body)
  }

  // MARK: Control

  /// Sets these faults and no others.
  func setFaults(_ change: (inout Faults) -> Void) async {
    var faults = Faults()
    change(&faults)
    await simulator.setFaults(faults)
  }

  func control(_ method: HTTPMethod, _ path: String, _ body: String? = nil) async throws -> Answer {
    try await send(method, simulator.controlURL + path, [:], body)
  }
}

extension SimulatedProviders {
  var clientTLS: TLSConfiguration {
    get throws {
      var tls = TLSConfiguration.makeClientConfiguration()
      tls.trustRoots = .certificates([
        try NIOSSLCertificate(bytes: Array(certificateAuthorityPEM.utf8), format: .pem)
      ])
      return tls
    }
  }
}

enum JWT {
  static func part(_ json: String) -> String { encode(Data(json.utf8)) }

  static func encode(_ data: Data) -> String {
    data.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
  }
}

extension Trait where Self == Fixture<Client> {
  /// A simulator of the test's own, and a client.
  static var client: Self { Fixture { try await Client.with(.init(), $0) } }
}
