package import AsyncHTTPClient
package import HTTP
import NIOCore
import NIOHTTP1
import NIOSSL
import Operations

/// A service that answers in JSON, as a caller with these credentials meets it.
struct JSONService {
  /// What the paths of calls are added to.
  let url: String
  var credentials = Credentials.none
  /// How the caller presents itself, as `User-Agent`.
  var userAgent = "push-bouncer"
  /// What it sends along besides.
  var headers: [(String, String)] = []
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

  /// A call that was refused, or not answered with JSON.
  struct Refusal: Readable {
    /// The path, without what follows a question mark.
    let call: String
    let status: HTTPResponseStatus
    /// The code in Zulip's envelope.
    let code: String?
    /// What the service says: `msg` in Zulip's envelope, `error` at the simulator, `message` at Nextcloud's ends.
    let message: String?

    var description: String {
      "\(call): \(status.code) \(message ?? status.reasonPhrase)\(code.map { " (\($0))" } ?? "")"
    }
  }

  /// A call that was not answered at all.
  struct Silence: Readable {
    let url: String
    let reason: any Error

    /// Whether nothing is wrong but that it takes longer than the caller would wait.
    var isTimeout: Bool { reason as? HTTPClientError == .deadlineExceeded }

    var description: String {
      isTimeout
        ? "\(url) did not answer in time"
        : "\(url) cannot be reached: see that it runs and that the address is right"
    }
  }

  /// - Parameter timeout: for the whole call; a long poll takes as long as the service holds it.
  @discardableResult
  func call(
    _ method: HTTPMethod, _ path: String, _ body: Body? = nil, timeout: TimeAmount = .seconds(15)
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
    let (status, bytes) = try await answer(to: request, timeout)
    let answer = try? JSON.parse(bytes)
    guard let answer, (200..<300).contains(status.code) else {
      throw Refusal(
        call: String(path.prefix { $0 != "?" }), status: status, code: answer?["code"]?.string,
        message: (answer?["msg"] ?? answer?["error"] ?? answer?["message"]
          ?? answer?["ocs"]?["data"]?["message"])?
          .string)
    }
    return answer
  }

  private func answer(to request: HTTPClientRequest, _ timeout: TimeAmount) async throws -> (
    HTTPResponseStatus, ByteBuffer
  ) {
    do {
      let response = try await client.execute(request, timeout: timeout)
      return (response.status, try await response.body.collect(upTo: maximumBytes))
    } catch is CancellationError {
      throw CancellationError()
    } catch {
      throw Silence(url: url, reason: error)
    }
  }
}

extension JSON {
  /// The elements of an array; none of any other value.
  var elements: [JSON] { if case .array(let elements) = self { elements } else { [] } }
}

/// What did not happen as it should, for whoever watches.
package struct DemoError: Error, CustomStringConvertible {
  package let description: String

  package init(_ description: String) {
    self.description = description
  }
}

/// The provider simulator's control endpoint, where virtual phones get what was pushed to them.
package struct PhoneHome {
  package let client: HTTPClient
  let url: String
  private let control: JSONService

  package init(url: String, client: HTTPClient) {
    (self.url, self.client) = (url, client)
    control = JSONService(url: "\(url)/_control", maximumBytes: 16 << 20, client: client)
  }

  /// A client that trusts one more certificate authority.
  package static func client(ca: String?) throws -> HTTPClient {
    var configuration = HTTPClient.Configuration.singletonConfiguration
    // Whoever waits in front of a terminal hears at once that nobody listens there.
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

  /// The number from which on deliveries are new.
  package func next() async throws -> Int64 {
    try await control.call(.GET, "deliveries?since=999999999999999")["next"]?.integer ?? 0
  }

  /// What has arrived since; waits for some seconds if nothing has.
  package func deliveries(after seen: inout Int64) async throws -> [JSON] {
    let answer = try await control.call(.GET, "deliveries?since=\(seen)&wait=5", timeout: .seconds(30))
    seen = answer["next"]?.integer ?? seen
    return answer["deliveries"]?.elements ?? []
  }

  /// What has arrived since where a phone's messages come, others' among them; waits for some seconds if nothing has.
  ///
  /// - Parameter seen: apart for each subscription of Web Push, by its id, and under "" for all else.
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

  /// Waits for this many.
  func deliveries(_ count: Int, after seen: inout Int64) async throws -> [JSON] {
    var all: [JSON] = []
    for _ in 0..<3 where all.count < count { all += try await deliveries(after: &seen) }
    return all
  }

  /// Makes the providers answer so for a token from now on.
  func set(token: String, _ behaviour: JSON) async throws {
    try await control.call(.PUT, "tokens/\(token)", .json(behaviour))
  }
}
