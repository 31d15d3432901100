package import AsyncHTTPClient
import Basics
import Foundation
package import HTTP
import NIOCore
import NIOHTTP1
import NIOSSL
import Operator
import PushBouncerClient

/// A service that answers in JSON, with a caller's credentials for it.
struct JSONService {
  /// The base URL, to which the paths of calls are appended.
  let url: String
  var credentials = Credentials.none
  var userAgent = "push-bouncer"
  /// More header fields of each request.
  var headers: [(String, String)] = []
  /// For a whole call.
  var timeout = TimeAmount.seconds(15)
  /// Longer answers are not read.
  var maximumBytes = 1 << 20
  let client: HTTPClient

  enum Credentials {
    case none
    case basic(user: String, password: String)
    case bearer(String)
  }

  enum Body {
    case form([(String, String)])
    case json(JSON)
  }

  /// A call that was refused or whose answer is not JSON.
  struct Refusal: Readable {
    /// The path without the query.
    let call: String
    let status: HTTPResponseStatus
    /// The code in Zulip's envelope.
    let code: String?
    /// The service's message: `msg` in Zulip's envelope, `error` from the simulator, `message` from
    /// Nextcloud's services.
    let message: String?

    var description: String {
      "\(call): \(status.code) \(message ?? status.reasonPhrase)\(code.map { " (\($0))" } ?? "")"
    }
  }

  /// A call without an answer.
  struct Silence: Readable {
    let url: String
    let reason: any Error

    /// Whether the call only took longer than its timeout.
    var isTimeout: Bool { reason as? HTTPClientError == .deadlineExceeded }

    var description: String {
      isTimeout
        ? "\(url) did not answer in time"
        : "\(url) cannot be reached: see that it runs and that the address is right"
    }
  }

  /// - Parameter timeout: for this call, such as a long poll, which takes as long as the service holds it.
  @discardableResult
  func call(
    _ method: HTTPMethod, _ path: String, _ body: Body? = nil, timeout: TimeAmount? = nil
  ) async throws -> JSON {
    var request = HTTPClientRequest(url: path.isEmpty ? url : "\(url)/\(path)")
    request.method = method
    request.headers = ["User-Agent": userAgent]
    request.headers.add(contentsOf: headers)
    switch credentials {
    case .none: break
    case .basic(let user, let password): request.setBasicAuth(username: user, password: password)
    case .bearer(let token): request.headers.add(name: "Authorization", value: "Bearer \(token)")
    }
    switch body {
    case nil: break
    case .form(let fields):
      request.headers.add(name: "Content-Type", value: "application/x-www-form-urlencoded")
      request.body = .bytes(ByteBuffer(bytes: Form.encode(fields.map { ($0, $1) })))
    case .json(let document):
      request.headers.add(name: "Content-Type", value: "application/json")
      request.body = .bytes(ByteBuffer(bytes: document.bytes))
    }
    let (head, bytes) = try await answer(to: request, timeout ?? self.timeout)
    let status = head.status
    let answer = status == .noContent ? .null : try? JSON.parse(bytes)
    guard let answer, (200..<300).contains(status.code) else {
      throw Refusal(
        call: String(path.prefix { $0 != "?" }), status: status, code: answer?["code"]?.string,
        message: (answer?["msg"] ?? answer?["error"] ?? answer?["message"]
          ?? answer?["ocs"]?["data"]?["message"])?
          .string)
    }
    return answer
  }

  /// A call of an app's to the gateway.
  func send(_ call: GatewayCall) async throws -> GatewayAnswer {
    var request = HTTPClientRequest(url: call.url)
    request.method = HTTPMethod(rawValue: call.method)
    request.headers = HTTPHeaders(call.headers.map { ($0, $1) })
    request.body = call.body.map { .bytes(ByteBuffer(bytes: $0)) }
    let (head, body) = try await answer(to: request, timeout)
    return GatewayAnswer(
      status: Int(head.status.code), headers: head.headers.map { ($0, $1) },
      body: Data(body.readableBytesView))
  }

  /// Posts bytes, and returns the status of the answer.
  func post(_ body: ByteBuffer) async throws -> HTTPResponseStatus {
    var request = HTTPClientRequest(url: url)
    request.method = .POST
    request.headers = HTTPHeaders(headers)
    request.body = .bytes(body)
    return try await answer(to: request, timeout).head.status
  }

  private func answer(to request: HTTPClientRequest, _ timeout: TimeAmount) async throws -> (
    head: HTTPClientResponse, body: ByteBuffer
  ) {
    do {
      let response = try await client.execute(request, timeout: timeout)
      return (response, try await response.body.collect(upTo: maximumBytes))
    } catch is CancellationError {
      throw CancellationError()
    } catch {
      throw Silence(url: url, reason: error)
    }
  }
}

/// A step of the demo that failed, in words for its user.
package struct DemoError: Error, CustomStringConvertible {
  package let description: String

  package init(_ description: String) {
    self.description = description
  }
}

/// The provider simulator's control endpoint, from which virtual phones fetch their pushes.
package struct PhoneHome {
  package let client: HTTPClient
  let url: String
  private let control: JSONService

  package init(url: String, client: HTTPClient) {
    self.url = url
    self.client = client
    control = JSONService(url: "\(url)/_control", maximumBytes: 16 << 20, client: client)
  }

  /// A client that trusts one more certificate authority.
  package static func client(ca: String?) throws -> HTTPClient {
    var configuration = HTTPClient.Configuration.singletonConfiguration
    // Without retries, a user at a terminal learns at once that nothing listens on the port.
    configuration.connectionPool.retryConnectionEstablishment = false
    if let ca {
      var tls = TLSConfiguration.makeClientConfiguration()
      guard let certificates = try? NIOSSLCertificate.fromPEMFile(ca), !certificates.isEmpty else {
        throw DemoError("\(ca) is no file with a certificate in PEM")
      }
      tls.additionalTrustRoots = [.certificates(certificates)]
      configuration.tlsConfiguration = tls
    }
    return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
  }

  /// The sequence number after which deliveries are new.
  package func next() async throws -> Int64 {
    try await control.call(.GET, "deliveries?since=999999999999999")["next"]?.integer ?? 0
  }

  /// The deliveries after `seen`. Waits some seconds for the first.
  package func deliveries(after seen: inout Int64) async throws -> [JSON] {
    let answer = try await control.call(.GET, "deliveries?since=\(seen)&wait=5", timeout: .seconds(30))
    seen = answer["next"]?.integer ?? seen
    return answer["deliveries"]?.elements ?? []
  }

  /// The deliveries since at the phone's provider, including other phones'. Waits some seconds for the first.
  ///
  /// - Parameter seen: the last sequence number, by the id of the Web Push subscription; under "" for APNs
  ///   and FCM.
  package func deliveries(
    to phone: VirtualPhone, at service: PushService, after seen: inout [Substring: Int64]
  ) async throws -> [JSON] {
    guard let newest = phone.subscriptions.last else {
      return try await deliveries(after: &seen["", default: 0])
    }
    var all: [JSON] = []
    for subscription in phone.subscriptions {
      all += try await service.messages(
        for: subscription, after: &seen[subscription.id, default: 0],
        wait: subscription.id == newest.id ? 5 : 0)
    }
    return all
  }

  /// Waits for `count` deliveries.
  func deliveries(_ count: Int, after seen: inout Int64) async throws -> [JSON] {
    var all: [JSON] = []
    for _ in 0..<3 where all.count < count { all += try await deliveries(after: &seen) }
    return all
  }

  /// Sets how the providers answer pushes to a token.
  func set(token: String, _ behaviour: JSON) async throws {
    try await control.call(.PUT, "tokens/\(token)", .json(behaviour))
  }
}
